package image

import (
	"fmt"
	"os"
	"path/filepath"

	"writ"
	"writ/internal/diskspace"
	"writ/sal"
)

// budget limits the number of images per project and the disk space of all images on the node.
type budget struct {
	max   int64 // see Driver.MaxBytes
	store store
}

// maxImages limits the images of a project on the node. A limit of bytes is not enough, because images with equal
// content share a file. Each fetch reads the records of all images, which takes some milliseconds for a thousand
// records.
const maxImages = 1000

// checkCount returns QUOTA_EXCEEDED if the project has reached maxImages.
func (b budget) checkCount(image writ.ResourceID) error {
	records, _, err := b.store.records.List()
	if err != nil {
		return err
	}
	return sal.RoomForResource(image, records, maxImages)
}

// most returns the maximum disk space of all images on the node, in bytes.
func (b budget) most(dir string) (int64, error) {
	most, err := diskspace.Share(dir, b.max)
	return most, sal.HostError("measure the disk of the images", err)
}

// checkBytes returns QUOTA_EXCEEDED if images would exceed their limit once the unfinished file `begun` occupies
// `bytes`. A file that several projects share counts once per project. Otherwise the remaining space would reveal that
// another project has the same content.
func (b budget) checkBytes(begun string, bytes int64) error {
	dir, begun := filepath.Dir(begun), filepath.Base(begun)
	names, err := files(dir)
	if err != nil {
		return err
	}
	needed, _, err := b.store.needed()
	if err != nil {
		return err
	}
	others := int64(0)
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || sameBegun(name, begun) {
			continue // removed meanwhile, or included in bytes
		}
		others += diskspace.Occupied(info) * max(1, int64(len(needed[name])))
	}
	most, err := b.most(dir)
	if err != nil || others+bytes <= most {
		return err
	}
	return writ.Errorf(writ.CodeQuotaExceeded,
		"the image needs at least %s, and other images use %s of the %s for images on this node", amount(bytes),
		amount(others), amount(most)).
		WithHint("delete unused images (`writ resource list --kind image`), or give the node's runner a larger --image-disk")
}

// amount formats bytes for people.
func amount(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}
