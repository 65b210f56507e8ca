package monitoring

import (
	"os"
	"time"

	"golang.org/x/sync/singleflight"

	"writ/internal/diskspace"
	"writ/internal/metrics"
)

// Disk measures the disk usage of a daemon. A hanging disk delays a scrape by at most diskWithin.
type Disk struct {
	Data  string // directory on the disk
	Store string // database file; "" if the database is on a server

	asked singleflight.Group // concurrent scrapes share one read
}

// diskWithin limits how long a scrape waits for the disk. The other metrics of the scrape wait as well.
const diskWithin = time.Second

// Metrics sends the metrics of the disk. It omits them if the disk does not respond in time.
func (d *Disk) Metrics(to *metrics.Scrape) {
	size := to.Gauge("writ_data_disk_size_bytes", "Size of the disk with the data directory.")
	free := to.Gauge("writ_data_disk_free_bytes",
		"Bytes that this process can still write to the disk with the data directory.")
	store := to.Gauge("writ_store_bytes", "Size of the file with the records of this part.")
	read := d.asked.DoChan("", func() (any, error) { return d.read(), nil })
	late := time.NewTimer(diskWithin)
	defer late.Stop()
	select {
	case result := <-read:
		s := result.Val.(space)
		if s.size > 0 {
			size(float64(s.size))
			free(float64(s.free))
		}
		if s.store > 0 {
			store(float64(s.store))
		}
	case <-late.C:
	}
}

// Space returns the free space of the disk and the size of the store. Both are 0 if the disk size is unknown.
func (d *Disk) Space() (free, store int64) {
	s := d.read()
	if s.size == 0 {
		return 0, 0
	}
	return s.free, s.store
}

// space holds the sizes read from a disk in bytes, 0 if unknown.
type space struct{ size, free, store int64 }

func (d *Disk) read() (s space) {
	s.size, s.free, _ = diskspace.Of(d.Data) // unknown sizes are omitted
	if d.Store == "" {
		return s
	}
	for _, suffix := range []string{"", "-wal"} { // the -wal file holds writes since the last checkpoint
		if info, err := os.Stat(d.Store + suffix); err == nil {
			s.store += info.Size()
		}
	}
	return s
}
