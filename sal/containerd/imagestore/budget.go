package imagestore

import (
	"context"
	"strconv"
	"strings"
	"sync"

	"github.com/containerd/containerd/v2/client"

	"writ/internal/diskspace"
)

// labelBytes is the label of an image from a registry with the size of its content, packed and unpacked.
const labelBytes = "writ.bytes"

// Budget limits the disk space of all images from registries together.
type Budget struct {
	Dir string // a directory on the disk of the images
	Max int64  // in bytes; 0 means a quarter of the disk

	mu      sync.Mutex
	granted int64 // to pulls that have not ended
}

// diskShare is the divisor of the disk's size if Max is 0, as for fetched images.
const diskShare = 4

func (b *Budget) max() int64 {
	if b.Max > 0 {
		return b.Max
	}
	size, _, err := diskspace.Of(b.Dir)
	if err != nil {
		return 0
	}
	return size / diskShare
}

// grant returns the number of bytes that a pull may use: half of the free ones. So concurrent pulls together stay below
// the limit. The caller calls done when the image has its label, or after a failure.
func (b *Budget) grant(ctx context.Context, daemon *client.Client) (most int64, done func(), err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, err := daemon.ImageService().List(ctx)
	if err != nil {
		return 0, nil, Failed("list the images", err)
	}
	left := b.max() - b.granted
	for _, i := range all {
		if strings.HasPrefix(i.Name, pulledPrefix) {
			bytes, _ := strconv.ParseInt(i.Labels[labelBytes], 10, 64)
			left -= bytes
		}
	}
	most = max(left, 0) / 2
	b.granted += most
	return most, func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.granted -= most
	}, nil
}
