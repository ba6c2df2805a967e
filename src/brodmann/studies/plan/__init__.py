"""What a configuration will take, before it runs."""
