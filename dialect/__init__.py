"""The `bascule` dialect: its ops, the analyses and passes over them, an interpreter. All else imports it; it imports nothing of ours."""
