//go:build !linux

package cgroup

import (
	"context"
	"errors"
	"os"
)

func detect(string) hierarchy { return hierarchy{missing: errors.New("only Linux has groups")} }

// Bound is a no-op.
func (g *Groups) Bound(string, Bounds) error { return nil }

// Add is a no-op.
func (g *Groups) Add(string, int) error { return nil }

// Has returns true, because there are no groups.
func (g *Groups) Has(string, int) (bool, error) { return true, nil }

// Remove is a no-op.
func (g *Groups) Remove(context.Context, string) error { return nil }

// All returns nil.
func (g *Groups) All() (map[string]string, error) { return nil, nil }

// Stat returns zeros.
func (g *Groups) Stat(string) Stat { return Stat{} }

// KilledForMemory returns 0.
func KilledForMemory(string) int64 { return 0 }

// Entry is a placeholder.
type Entry struct{ Dir *os.File }

// Open returns an empty entry.
func (g *Groups) Open(string) (*Entry, error) { return &Entry{}, nil }

// Enter is a no-op.
func (d *Entry) Enter() error { return nil }

// Close is a no-op.
func (d *Entry) Close() {}
