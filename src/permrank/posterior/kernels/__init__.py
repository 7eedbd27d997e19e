"""The factored Plackett-Luce model: passes over users and items, draws and point estimates."""
