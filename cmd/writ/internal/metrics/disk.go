package metrics

import (
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/singleflight"
)

// Disk is the collector of what a part of writ takes of its disk. A disk that hangs costs an answer diskWithin at most.
type Disk struct {
	Data  string // directory that is on it
	Store string // file of its records; "" if these are in a database of a server

	asked singleflight.Group // one question at a time, however many wait for its answer
}

// diskWithin is how long a disk has to answer. It keeps everything else of the answer waiting.
const diskWithin = time.Second

var (
	diskSize  = metric("writ_data_disk_size_bytes", "Size of the disk with the data directory.")
	diskFree  = metric("writ_data_disk_free_bytes", "What this process can still write to the disk with the data directory.")
	storeSize = metric("writ_store_bytes", "Size of the file with the records of this part.")
)

// Describe implements prometheus.Collector.
func (d *Disk) Describe(ch chan<- *prometheus.Desc) { describe(ch, diskSize, diskFree, storeSize) }

// Collect implements prometheus.Collector. What the disk does not say in time is left out.
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

// Space returns the free space of the disk and the size of the store. Both are 0 if the disk is unknown.
func (d *Disk) Space() (free, store int64) {
	s := d.read()
	if s.size == 0 {
		return 0, 0
	}
	return int64(s.free), int64(s.store)
}

// space is what was read of a disk; parts that are not known are 0.
type space struct{ size, free, store uint64 }

func (d *Disk) read() (s space) {
	s.size, s.free, _ = diskOf(d.Data) // left out
	if d.Store == "" {
		return s
	}
	for _, suffix := range []string{"", "-wal"} { // what a checkpoint has not taken over yet is in the second one
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
