"""How odd rows are beside many local models, what that means, and which features make them so."""
