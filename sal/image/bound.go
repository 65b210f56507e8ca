package image

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"writ"
	"writ/sal"
)

// diskShare divides the disk: images may occupy one part of this many, unless MaxBytes is set.
const diskShare = 4

// maxImages limits the images of a project on the node. Their bytes have a limit of their own, but images with equal
// content share a file. Each fetch reads the records of all images, which takes some milliseconds for a thousand.
const maxImages = 1000

// roomFor returns QUOTA_EXCEEDED if the project has reached maxImages.
func (d *Driver) roomFor(image writ.ResourceID) error {
	records, _, err := d.records().List()
	if err != nil {
		return err
	}
	have := 0
	for _, r := range records {
		if r.Resource.Project == image.Project && r.Resource != image {
			have++
		}
	}
	return sal.RoomForResource(image, have, maxImages)
}

// most returns the maximum disk space of all images on the node, in bytes.
func (d *Driver) most(dir string) int64 {
	if d.MaxBytes > 0 {
		return d.MaxBytes
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 1<<63 - 1 // any write to such a disk fails
	}
	return int64(stat.Blocks) / diskShare * int64(stat.Bsize)
}

// checkLimit returns QUOTA_EXCEEDED if images would exceed their limit once the unfinished file begun occupies bytes. A
// file shared by several projects counts once for each of them. So the remaining space does not reveal that another
// project has the same content.
func (d *Driver) checkLimit(dir, begun string, bytes int64) error {
	names, err := files(dir)
	if err != nil {
		return err
	}
	wanted, err := d.loadNeeded()
	if err != nil {
		return err
	}
	others := int64(0)
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || sameBegun(name, begun) {
			continue // removed meanwhile, or included in bytes
		}
		others += occupied(info) * max(1, int64(len(wanted.files[name])))
	}
	most := d.most(dir)
	if others+bytes <= most {
		return nil
	}
	return writ.Errorf(writ.CodeQuotaExceeded,
		"the image needs at least %s, which exceeds the %s for images on this node", amount(bytes), amount(most)).
		WithHint("delete unused images (writ resource list --kind image), or give the node's runner a larger --image-disk")
}

// sameBegun reports whether two files are unfinished files of the same content from the same URL.
func sameBegun(a, b string) bool {
	cut := func(name string) string {
		return strings.Join(strings.SplitN(name, ".", 4)[:min(3, strings.Count(name, ".")+1)], ".")
	}
	return strings.Count(a, ".") >= 3 && cut(a) == cut(b)
}

// amount formats bytes for people.
func amount(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// occupied returns the disk space of a file in bytes.
func occupied(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}

// sizeCheckInterval is the interval between size checks of a disk that is being converted.
const sizeCheckInterval = 100 * time.Millisecond

// convertWithinLimit runs do, which grows the file p.made, and cancels it when images exceed their limit.
func (p *part) convertWithinLimit(ctx context.Context, do func(ctx context.Context) error) error {
	check := func() error {
		info, err := os.Stat(p.made)
		if err != nil {
			return nil // not created yet
		}
		return p.fits(occupied(info))
	}
	limited, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for every := time.NewTicker(sizeCheckInterval); ; {
			select {
			case <-limited.Done():
				every.Stop()
				return
			case <-every.C:
				if err := check(); err != nil {
					cancel(err)
				}
			}
		}
	}()
	err := do(limited)
	if refused := context.Cause(limited); refused != nil && ctx.Err() == nil {
		err = refused
	}
	cancel(nil)
	<-watched
	if err == nil {
		err = check()
	}
	return err
}
