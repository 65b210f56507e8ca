//go:build !linux

package saltest

func fsType(string) int64 { return 0 }
