"""Durable virtual actors for Flask, kept in the SQL database that the app already has."""
