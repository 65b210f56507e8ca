package scripts

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/d5/tengo/v2/parser"
	"github.com/d5/tengo/v2/token"

	"writ"
	"writ/scripts/library"
)

// WithDigest returns the bundle with its digest computed, for programs that are evaluated many times. The caller must not
// change its sources afterwards.
func (b Bundle) WithDigest() Bundle {
	b.digest = b.Digest()
	return b
}

// Digest identifies the bundle: equal digests mean equal programs.
func (b Bundle) Digest() writ.Digest {
	if !b.digest.IsZero() {
		return b.digest
	}
	h := sha256.New()
	var size [binary.MaxVarintLen64]byte
	write := func(part []byte) {
		h.Write(binary.AppendUvarint(size[:0], uint64(len(part))))
		h.Write(part)
	}
	write([]byte("writ-bundle-v1"))
	for _, s := range append([]Source{b.Main}, b.Modules...) {
		write([]byte(s.Name))
		write(s.Text)
	}
	return writ.Digest(h.Sum(nil))
}

// Resolve makes the bundle of a script with all its direct and indirect imports. Modules are sorted by name. Modules of
// the library come with the binary; `find` returns the text of all other modules. A module for which `find` returns
// fs.ErrNotExist is omitted, and Check reports its import. `find` is never called for built-in modules and names of the
// library, so no file can replace them.
func Resolve(main Source, find func(module string) ([]byte, error)) (Bundle, error) {
	bundle := Bundle{Main: main}
	seen := make(map[string]bool)
	queue := importsOf(main.Text)
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if seen[name] || BuiltIn(name) {
			continue
		}
		seen[name] = true
		text, err := findModule(name, find)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Bundle{}, fmt.Errorf("read module %q: %w", name, err)
		}
		bundle.Modules = append(bundle.Modules, Source{Name: name, Text: text})
		queue = append(queue, importsOf(text)...)
	}
	slices.SortFunc(bundle.Modules, func(a, b Source) int { return strings.Compare(a.Name, b.Name) })
	return bundle, nil
}

func findModule(name string, find func(module string) ([]byte, error)) ([]byte, error) {
	if !strings.HasPrefix(name, library.Prefix) {
		return find(name)
	}
	m, ok := library.Find(name)
	if !ok {
		return nil, fs.ErrNotExist
	}
	return []byte(m.Text), nil
}

// importsOf returns the names that a source imports. It scans tokens only, so it works for sources with syntax errors,
// too.
func importsOf(text []byte) []string {
	var names []string
	var before [2]token.Token
	scanner := parser.NewScanner(parser.NewFileSet().AddFile("", -1, len(text)), text, nil, 0)
	for {
		tok, literal, _ := scanner.Scan()
		if tok == token.EOF {
			return names
		}
		if tok == token.String && before == [2]token.Token{token.Import, token.LParen} {
			if name, err := strconv.Unquote(literal); err == nil {
				names = append(names, name)
			}
		}
		before = [2]token.Token{before[1], tok}
	}
}
