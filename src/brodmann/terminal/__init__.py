"""What people see in a terminal: progress, tables and lines."""
