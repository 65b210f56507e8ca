package supervisor

import "writ/supervisor/bound"

const (
	maxText = bound.MaxText
	maxWord = bound.MaxWord
)

func clip(text string, limit int) string { return bound.Clip(text, limit) }

func amountOf(n int64) int64 { return bound.Amount(n) }
