//go:build !linux

package boot

// Main cannot be called here: IsInit is true under Linux only.
func (m *Machine) Main() { panic("the first process of a machine runs under Linux only") }

// Modprobe cannot be called here.
func Modprobe([]string) int { return 1 }
