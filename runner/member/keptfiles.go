package member

import (
	"path/filepath"

	"writ"
)

// NewNodeHint is the next step for a lost file of a node's data directory, with the directory as its argument.
const NewNodeHint = "a node has no backup: remove it with `writ node remove NODE`, and start it with an empty directory in place of %[1]s and a new token"

// PublicKeys holds the public halves of a node's keys.
type PublicKeys struct {
	Node string `json:"node"` // fingerprint of node.key
	Age  string `json:"age"`  // recipient of age.key
}

// compare returns DATA_INCOMPLETE if `have`, the public halves of the key files, differs from k, the keys with which
// the node joined. With other keys, the supervisor would reject every request of the node. path is the path of the
// record. A record without keys accepts any key files.
func (k PublicKeys) compare(have PublicKeys, path string) error {
	switch {
	case k == PublicKeys{} || k == have:
		return nil
	case k.Node != have.Node:
		return foreign(path, keyFile, have.Node, k.Node)
	default:
		return foreign(path, ageFile, have.Age, k.Age)
	}
}

func foreign(record, file, has, joined string) *writ.Error {
	dir := filepath.Dir(record)
	return writ.Errorf(writ.CodeDataIncomplete, "%s has the public key %s, but by %s the node has joined with %s",
		filepath.Join(dir, file), has, filepath.Base(record), joined).
		WithHint("if the files of two nodes were swapped, swap them back; otherwise "+NewNodeHint, dir)
}

// damaged returns DATA_INCOMPLETE for a file with invalid content.
func damaged(path string, err error) *writ.Error {
	return writ.Errorf(writ.CodeDataIncomplete, "%s is damaged: %w", path, err).WithHint(NewNodeHint, filepath.Dir(path))
}
