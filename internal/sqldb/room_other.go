//go:build !linux

package sqldb

// room finds no fault here: coordinators and supervisors run on Linux, and writes report a full disk by themselves.
func (h *health) room() error { return nil }

// overQuota finds no fault either.
func overQuota(string, nextStep) error { return nil }
