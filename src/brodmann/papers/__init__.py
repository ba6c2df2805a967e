"""The papers, table by table: recipes, the commands that run them, and their readers."""
