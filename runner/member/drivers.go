package member

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"writ"
)

// driversFile is the name of the file with the node's id, in the directory of the node's drivers.
const driversFile = "node.id"

// CheckDrivers returns DATA_INCOMPLETE if the directory `drivers` belongs to another node than the data directory dir.
// With the records of another node, the drivers would report that node's resources, and could start or delete them on
// this host.
func CheckDrivers(dir, drivers string) error {
	path := filepath.Join(drivers, driversFile)
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the owner of the drivers' records: %w", err)
	}
	owner, node := writ.NodeID(strings.TrimSpace(string(text))), nodeOf(dir)
	if owner == node && node != "" {
		return nil
	}
	return writ.Errorf(writ.CodeDataIncomplete, "the records of drivers in %s belong to the node %s, not to %s", drivers,
		owner, orNew(node)).
		WithHint("if directories of two nodes were swapped, swap them back; otherwise "+NewNodeHint, dir)
}

// BindDrivers writes the id of the node into the directory of its drivers, if the directory has no owner. Otherwise it
// returns the result of CheckDrivers.
func (m *Member) BindDrivers(drivers string) error {
	path := filepath.Join(drivers, driversFile)
	if _, err := os.Lstat(path); err == nil {
		return CheckDrivers(m.dir, drivers)
	}
	if err := writeFile(path, []byte(m.Node()+"\n")); err != nil {
		return fmt.Errorf("write the owner of the drivers' records: %w", err)
	}
	return nil
}

// nodeOf returns the id of the node with this data directory, or "" if it has not joined or its record is unreadable.
func nodeOf(dir string) writ.NodeID {
	text, err := os.ReadFile(filepath.Join(dir, memberFile))
	var r Record
	if err != nil || json.Unmarshal(text, &r) != nil {
		return "" // Join reports this
	}
	return r.Node
}

// orNew describes the node with this id.
func orNew(node writ.NodeID) string {
	if node == "" {
		return "this node, which has not joined"
	}
	return string(node)
}
