"""The command line: arguments, tables and exit codes; everything else lies below."""
