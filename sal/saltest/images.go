package saltest

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"writ"
	"writ/sal"
)

// Images is a directory with the raw images of a test, named by writ.ResourceID.HostName.
type Images string

// Image implements sal.Images.
func (dir Images) Image(_ context.Context, project writ.ProjectID, image writ.Ref) (sal.Image, error) {
	resource := writ.ResourceID{Project: project, Kind: writ.KindImage, Name: image.Name}
	path := filepath.Join(string(dir), resource.HostName())
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return sal.Image{}, sal.Unknown(resource)
	}
	if err != nil {
		return sal.Image{}, sal.HostError("inspect the image", err)
	}
	return sal.Image{Path: path, Format: "raw", Bytes: info.Size()}, nil
}
