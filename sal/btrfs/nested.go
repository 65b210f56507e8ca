package btrfs

import (
	"errors"
	"fmt"

	"writ"
	"writ/sal"
)

// Whoever may write in a tree may make subvolumes in it, if nothing keeps them from the kernel's calls for that. What is in those no snapshot
// of the tree holds, and no bound of it bounds: so a tree that has any is not kept, copied or put back until they are gone.

// nested is a subvolume that is directly in another one.
type nested struct {
	id   uint64
	dir  uint64 // the inode of the directory in which it is
	name string
}

// alone returns an error if there are subvolumes in a tree.
func (p *Pool) alone(name, subvolume string) error {
	found, err := p.inside(subvolume)
	if err != nil || found == "" {
		return err
	}
	return writ.Errorf(writ.CodeResourceConflict, "the tree %s has %s in it: snapshots and copies would not hold what is there, and putting back would destroy it",
		name, found).WithHint("copy what is in there to a directory and remove it with rm -r, then try again")
}

// strangers are the drift of a tree in which there are subvolumes.
func (p *Pool) strangers(subvolume string) ([]sal.Drift, error) {
	found, err := p.inside(subvolume)
	if err != nil || found == "" {
		return nil, err
	}
	return []sal.Drift{{What: "it has " + found + " in it, which its size does not bound and no snapshot, copy or backup would hold: " +
		"copy what is in there to a directory and remove it with rm -r"}}, nil
}

// inside says in words which subvolumes there are in one, "" if there are none.
func (p *Pool) inside(subvolume string) (string, error) {
	id, err := subvolumeID(subvolume)
	if err != nil {
		return "", err
	}
	all, err := nestedIn(p.Dir, id)
	if err != nil || len(all) == 0 {
		return "", err
	}
	where, err := nestedPath(p.Dir, id, all[0])
	if err != nil {
		where = all[0].name // its path is too long for the kernel to tell, or it has just gone
	}
	if others := len(all) - 1; others > 0 {
		return fmt.Sprintf("the btrfs subvolume %q and %d more", where, others), nil
	}
	return fmt.Sprintf("the btrfs subvolume %q", where), nil
}

// keep makes a snapshot of a tree that is all of it.
func (p *Pool) keep(to, name, from string, readOnly bool) error {
	if err := p.alone(name, from); err != nil {
		return err
	}
	if err := snapshotSubvolume(to, from, readOnly); err != nil {
		return err
	}
	if err := p.alone(name, from); err != nil { // one that was made meanwhile
		return errors.Join(err, deleteSubvolume(to))
	}
	return nil
}

// removeWithNested removes a subvolume and all that are in it, however deep. It finds them by their numbers: no name or depth that somebody
// has chosen stands in the way.
func (p *Pool) removeWithNested(path string) error {
	id, err := subvolumeID(path)
	if err != nil {
		return err
	}
	if err := p.removeNested(id); err != nil {
		return fmt.Errorf("remove what is nested in it: %w", err)
	}
	return deleteSubvolume(path)
}

func (p *Pool) removeNested(in uint64) error {
	all, err := nestedIn(p.Dir, in)
	if err != nil {
		return err
	}
	for _, n := range all {
		if err := p.removeNested(n.id); err != nil {
			return err
		}
		p.step("remove a nested subvolume")
		if err := deleteNested(p.Dir, in, n); err != nil {
			return err
		}
	}
	return nil
}
