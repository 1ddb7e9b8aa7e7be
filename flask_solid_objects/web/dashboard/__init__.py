"""The administration dashboard: pages for operators, served by a blueprint that the application registers."""
