package sal

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"

	"writ"
)

// maxWalkMemory limits the memory, in bytes, for the names that one walk holds at a time. It is enough for about three
// million files in one directory.
const maxWalkMemory = 256 << 20

// Walk walks through a directory tree whose names and shape an attacker may have chosen. It visits a directory before
// its content, and entries in the order of their names. It skips entries that disappear during the walk.
type Walk struct {
	Root *os.Root
	// Enter visits an entry. Its name is relative to Root, "." for Root itself.
	Enter func(name string, info fs.FileInfo) error
	// Leave visits a directory again after all of its content. It may be nil.
	Leave func(name string, info fs.FileInfo) error

	held int64
}

// Run walks until the end of the tree, the first error of a visitor, or the end of ctx.
func (w *Walk) Run(ctx context.Context) error {
	info, err := w.Root.Lstat(".")
	if err != nil {
		return err
	}
	return w.visit(ctx, ".", info)
}

// Hold adds memory that a visitor keeps until the end of the walk. It returns QUOTA_EXCEEDED if the walk then holds
// more than maxWalkMemory.
func (w *Walk) Hold(bytes int64) error {
	w.held += bytes
	if w.held > maxWalkMemory {
		return writ.Errorf(writ.CodeQuotaExceeded,
			"the node reads at most %d MiB of names at a time, and the tree has more", maxWalkMemory>>20).
			WithHint("divide directories with millions of entries, and remove hard links that are not needed")
	}
	return nil
}

func (w *Walk) visit(ctx context.Context, name string, info fs.FileInfo) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := w.Enter(name, info); err != nil || !info.IsDir() {
		return err
	}
	if err := w.content(ctx, name); err != nil || w.Leave == nil {
		return err
	}
	return w.Leave(name, info)
}

// content visits the entries of a directory.
func (w *Walk) content(ctx context.Context, dir string) error {
	before := w.held
	names, err := w.names(dir)
	if err != nil {
		return err
	}
	listed := w.held - before
	defer func() { w.held -= listed }()
	for _, name := range names {
		name = path.Join(dir, name)
		info, err := w.Root.Lstat(name)
		if err == nil {
			err = w.visit(ctx, name, info)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// names returns the sorted names in a directory and counts them as held.
func (w *Walk) names(dir string) (names []string, err error) {
	f, err := w.Root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	err = w.Hold(NameMemory(dir))
	for err == nil {
		var some []string
		some, err = f.Readdirnames(1024)
		for _, name := range some {
			err = errors.Join(err, w.Hold(NameMemory(name)))
		}
		names = append(names, some...)
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	slices.Sort(names)
	return names, nil
}

// NameMemory estimates the memory of a name in bytes.
func NameMemory(name string) int64 { return int64(len(name)) + 32 }
