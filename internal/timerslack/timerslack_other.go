//go:build !linux

package timerslack

import "time"

// Start calls start: this system has no such setting.
func Start(_ time.Duration, start func() error) error { return start() }
