"""The domain of Manyhands: models, rules, operations and interfaces."""
