package metrics

import (
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
)

// Disk collects the disk usage of a daemon. A hanging disk delays a scrape by at most diskWithin.
type Disk struct {
	Data  string // directory on the disk
	Store string // database file; "" if the database is on a server

	asked singleflight.Group // concurrent scrapes share one read
}

// diskWithin limits how long a scrape waits for the disk. The other metrics of the scrape wait as well.
const diskWithin = time.Second

var (
	diskSize = metric("writ_data_disk_size_bytes", "Size of the disk with the data directory.")
	diskFree = metric("writ_data_disk_free_bytes",
		"Bytes that this process can still write to the disk with the data directory.")
	storeSize = metric("writ_store_bytes", "Size of the file with the records of this part.")
)

// Describe implements prometheus.Collector.
func (d *Disk) Describe(ch chan<- *prometheus.Desc) { describe(ch, diskSize, diskFree, storeSize) }

// Collect implements prometheus.Collector. It omits the metrics if the disk does not respond in time.
func (d *Disk) Collect(ch chan<- prometheus.Metric) {
	read := d.asked.DoChan("", func() (any, error) { return d.read(), nil })
	late := time.NewTimer(diskWithin)
	defer late.Stop()
	select {
	case s := <-read:
		s.Val.(space).send(gather(ch))
	case <-late.C:
	}
}

// Space returns the free space of the disk and the size of the store. Both are 0 if the disk size is unknown.
func (d *Disk) Space() (free, store int64) {
	s := d.read()
	if s.size == 0 {
		return 0, 0
	}
	return int64(s.free), int64(s.store)
}

// space holds the sizes read from a disk in bytes, 0 if unknown.
type space struct{ size, free, store uint64 }

func (d *Disk) read() (s space) {
	s.size, s.free, _ = diskOf(d.Data) // unknown sizes are omitted
	if d.Store == "" {
		return s
	}
	for _, suffix := range []string{"", "-wal"} { // the -wal file holds writes since the last checkpoint
		if info, err := os.Stat(d.Store + suffix); err == nil {
			s.store += uint64(info.Size())
		}
	}
	return s
}

func (s space) send(g gather) {
	if s.size > 0 {
		g.gauge(diskSize, float64(s.size))
		g.gauge(diskFree, float64(s.free))
	}
	if s.store > 0 {
		g.gauge(storeSize, float64(s.store))
	}
}
