package confine

// MappedForTest is what Mapped asks of each map.
func (a *Accounts) MappedForTest(text string) bool { return a.mapped(text) }
