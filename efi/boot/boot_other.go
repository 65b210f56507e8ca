//go:build !linux

package boot

// Main panics, because the first process of a machine runs on Linux only.
func (m *Machine) Main() { panic("the first process of a machine runs on Linux only") }

// Modprobe returns the exit code of a failure. Only a Linux kernel starts this program as modprobe.
func Modprobe([]string) int { return 1 }
