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

// diskShare is the part of a disk, one of so many, that images may occupy unless the driver is told otherwise.
const diskShare = 4

// maxImages bounds the images of a project on the node. Their bytes have a bound, but images of one content share its file. Each fetch reads
// the records of all images: of a thousand in some milliseconds.
const maxImages = 1000

// roomFor returns QUOTA_EXCEEDED if the project has as many images as it may.
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

// most is how many bytes all images of the node may occupy together.
func (d *Driver) most(dir string) int64 {
	if d.MaxBytes > 0 {
		return d.MaxBytes
	}
	var stat unix.Statfs_t
	if err := unix.Statfs(dir, &stat); err != nil {
		return 1<<63 - 1 // nothing fits on such a disk anyway
	}
	return int64(stat.Blocks) / diskShare * int64(stat.Bsize)
}

// allows returns an error if images would occupy more than they may with so many bytes of a file that has just been begun. What several
// projects share counts for each of them, so that nobody learns from what is left that somebody else has the same.
func (d *Driver) allows(dir, begun string, bytes int64) error {
	names, err := files(dir)
	if err != nil {
		return err
	}
	wanted, err := d.wanted()
	if err != nil {
		return err
	}
	others := int64(0)
	for _, name := range names {
		info, err := os.Lstat(filepath.Join(dir, name))
		if err != nil || sameBegun(name, begun) {
			continue // gone meanwhile, or counted by whoever asks
		}
		others += occupied(info) * max(1, int64(len(wanted.files[name])))
	}
	most := d.most(dir)
	if others+bytes <= most {
		return nil
	}
	return writ.Errorf(writ.CodeQuotaExceeded, "the image needs %s or more, and that is not left of the %s that images may have on this node",
		amount(bytes), amount(most)).
		WithHint("delete images that are not needed any more (writ resource list --kind image), or give the node's runner a larger --image-disk")
}

// sameBegun reports whether two files are what there is of one content from one URL.
func sameBegun(a, b string) bool {
	cut := func(name string) string {
		return strings.Join(strings.SplitN(name, ".", 4)[:min(3, strings.Count(name, ".")+1)], ".")
	}
	return strings.Count(a, ".") >= 3 && cut(a) == cut(b)
}

// amount writes bytes as people read them.
func amount(bytes int64) string {
	if bytes < 1<<30 {
		return fmt.Sprintf("%d MiB", (bytes+1<<20-1)>>20)
	}
	return fmt.Sprintf("%.1f GiB", float64(bytes)/(1<<30))
}

// occupied is how many bytes of the disk a file has.
func occupied(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return s.Blocks * 512
	}
	return info.Size()
}

// lookEvery is how often it is looked how big a disk has become that is being converted.
const lookEvery = 100 * time.Millisecond

// whileAllowed does something that lets a file grow which is made of a part, until images occupy more than they may.
func (p *part) whileAllowed(ctx context.Context, do func(ctx context.Context) error) error {
	check := func() error {
		info, err := os.Stat(p.made)
		if err != nil {
			return nil // it is not there yet
		}
		return p.fits(occupied(info))
	}
	limited, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		for every := time.NewTicker(lookEvery); ; {
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
