//go:build !linux

package cgroup

import (
	"context"
	"errors"
	"os"
)

func find(string) hierarchy { return hierarchy{missing: errors.New("only Linux has groups")} }

// Bound does nothing: nothing is bounded here.
func (g *Groups) Bound(string, Bounds) error { return nil }

// Add does nothing.
func (g *Groups) Add(string, int) error { return nil }

// Has reports true: there is no group that a process could be outside of.
func (g *Groups) Has(string, int) (bool, error) { return true, nil }

// Remove does nothing.
func (g *Groups) Remove(context.Context, string) error { return nil }

// All are none.
func (g *Groups) All() (map[string]string, error) { return nil, nil }

// Stat is of nothing.
func (g *Groups) Stat(string) Stat { return Stat{} }

// KilledForMemory returns 0.
func KilledForMemory(string) int64 { return 0 }

// Entry does nothing here.
type Entry struct{ Dir *os.File }

// Open opens nothing.
func (g *Groups) Open(string) (*Entry, error) { return &Entry{}, nil }

// Enter does nothing.
func (d *Entry) Enter() error { return nil }

// Close does nothing.
func (d *Entry) Close() {}
