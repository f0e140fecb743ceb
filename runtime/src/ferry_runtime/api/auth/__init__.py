"""Who may do what: keys, the people behind them, and a guard in front of every route."""
