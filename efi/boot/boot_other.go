//go:build !linux

package boot

// Main panics: IsInit is true on Linux only.
func (m *Machine) Main() { panic("the first process of a machine runs on Linux only") }

// Modprobe fails: only a Linux kernel calls it.
func Modprobe([]string) int { return 1 }
