package simulated

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"writ"
	"writ/sal"
)

// backup represents an archive in the node's backup directory.
type backup struct {
	SizeGiB int64  `json:"size_gib"`
	SHA256  string `json:"sha256"`
}

// backups are the files that represent the archives of volumes.
type backups struct {
	dir  string
	step func(name string)
}

func (b backups) remove(project writ.ProjectID, name string) error {
	b.step("remove backup")
	if err := os.Remove(b.path(project, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (b backups) write(project writ.ProjectID, name string, content backup) error {
	text, err := json.Marshal(content)
	if err != nil {
		return err
	}
	path := b.path(project, name)
	b.step("backup")
	if err := sal.MakeDir(filepath.Dir(path)); err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}

func (b backups) read(project writ.ProjectID, name string) (found backup, err error) {
	text, err := os.ReadFile(b.path(project, name))
	if errors.Is(err, fs.ErrNotExist) {
		return found, writ.Errorf(writ.CodeResourceUnknown, "the node has no backup %q", name).
			WithHint("create one with volume.send")
	}
	if err == nil {
		err = json.Unmarshal(text, &found)
	}
	if err != nil {
		return found, sal.HostError("read the backup "+name, err)
	}
	return found, nil
}

func (b backups) path(project writ.ProjectID, name string) string {
	file := writ.ResourceID{Project: project, Kind: "backup", Name: name}.HostName()
	return filepath.Join(b.dir, file+".json")
}
