package volume

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"time"

	"writ"
	"writ/sal"
	"writ/sal/catalog"
)

// What comes from another node arrives in a file beside the trees, and becomes a tree once it is whole. What has arrived outlives failed
// attempts and the end of the process; it goes with the volume's record, which says what it is the beginning of.

const (
	// arrivalKept is how long the beginning of an archive is kept after it was asked for last. Within a run that is tried again sooner.
	arrivalKept = 24 * time.Hour
	// maxSpread is how many times longer than its volume an archive may be: a header of it takes more room than a small file does.
	maxSpread = 4
	// hurry is how long whoever was told to stop may take to tell the other node. A runner gives a driver 2 s to stop.
	hurry = 1500 * time.Millisecond
)

// arrival is the archive that a volume is being made of, as far as it came from another node.
type arrival struct {
	Edition string    `json:"edition"`
	SHA256  string    `json:"sha256,omitempty"` // once it is whole
	Until   time.Time `json:"until"`            // whoever wants it has asked again by then
}

// arrivalPath is where the archive is while it arrives.
func (j *job) arrivalPath() string { return filepath.Join(j.Dir, "arriving", j.name+".tar") }

// forgetArrival removes what has arrived. If it stays it is in nobody's way.
func (j *job) forgetArrival() { _ = os.Remove(j.arrivalPath()) }

// copyContent finds the volume that is to be copied: here, or wherever the archive comes from.
func (j *job) copyContent(ctx context.Context, args *catalog.VolumeCopy) (filling, error) {
	if j.Origin == nil {
		return j.cloneContent(ctx, &catalog.VolumeClone{From: args.From, Snapshot: args.Snapshot, SizeGiB: args.SizeGiB})
	}
	return filling{sizeGiB: args.SizeGiB, goesOn: true, into: func(ctx context.Context, r *record) error {
		return j.arrive(ctx, r, args)
	}}, nil
}

// begun returns what an earlier attempt at the same volume has left, nil if nothing that helps.
func (j *job) begun(r *record) (*arrival, error) {
	half, err := j.records().Get(j.Resource)
	if err != nil || half == nil || half.Own.Arrival == nil || half.UID != r.UID || half.Operation != r.Operation {
		return nil, err
	}
	if mutable, immutable := j.Operation.Args.Changed(half.Spec, r.Spec); len(mutable)+len(immutable) > 0 {
		return nil, nil
	}
	half.Own.Arrival.Until = j.now().Add(arrivalKept)
	return half.Own.Arrival, nil
}

// arrive fetches the archive, as far as it is not here, and makes the tree of it.
func (j *job) arrive(ctx context.Context, r *record, args *catalog.VolumeCopy) (err error) {
	defer func() {
		if err == nil || !passes(ctx, err) {
			j.done(ctx, args.Snapshot)
		}
	}()
	p, err := j.openPart(ctx, r, args.SizeGiB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.file.Close()) }()
	if r.Own.Arrival == nil || r.Own.Arrival.SHA256 == "" {
		if err := j.Origin.Fetch(ctx, args.Snapshot, p); err != nil {
			return err
		}
		if err := p.complete(); err != nil {
			return err
		}
	}
	from := archived{name: "archive of the " + string(args.From.Kind) + " " + args.From.Name, sizeGiB: args.SizeGiB, sha256: r.Own.Arrival.SHA256}
	return j.receive(ctx, p.file, from)
}

// done tells the other node that it is needed no more. Whoever has been told to stop tells it in a hurry: its time is over, and what is not
// let go of so expires.
func (j *job) done(ctx context.Context, snapshot string) {
	telling, stop := context.WithoutCancel(ctx), func() {}
	if ctx.Err() != nil {
		telling, stop = context.WithTimeout(telling, hurry)
	}
	defer stop()
	j.Origin.Done(telling, snapshot)
}

// part is an archive on its way into a file.
type part struct {
	*job
	ctx     context.Context // of the operation
	record  *record
	sizeGiB int64 // of the volume
	file    *os.File
	edition string
	hash    hash.Hash
	length  int64
	far     func(int64)
}

var _ sal.Part = (*part)(nil)

// openPart opens what has arrived. Without a record of it, that is nothing.
func (j *job) openPart(ctx context.Context, r *record, sizeGiB int64) (*part, error) {
	j.step("make room for archives")
	if err := sal.MakeDir(filepath.Dir(j.arrivalPath())); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(j.arrivalPath(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	p := &part{job: j, ctx: ctx, record: r, sizeGiB: sizeGiB, file: f, hash: sha256.New(), far: sal.Far(ctx, "fetched", 0)}
	if r.Own.Arrival == nil {
		return p, nil
	}
	p.edition = r.Own.Arrival.Edition
	if p.length, err = io.Copy(p.hash, &endingReader{ctx, f}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return p, nil
}

// At implements sal.Part.
func (p *part) At() (edition string, offset int64) { return p.edition, p.length }

// Begin implements sal.Part. The record says what arrives before anything does.
func (p *part) Begin(a sal.Archive) error {
	if p.sizeGiB < a.SizeGiB {
		return tooSmall(p.Resource, p.sizeGiB, fmt.Sprintf("%d GiB", a.SizeGiB))
	}
	if most := p.most(); a.Bytes > most {
		return writ.Errorf(writ.CodeQuotaExceeded, "the archive has %d bytes, and for a volume of %d GiB the node takes %d", a.Bytes, p.sizeGiB, most).
			WithHint("give it a bigger size_gib")
	}
	p.step("begin the archive")
	if err := p.file.Truncate(0); err != nil {
		return sal.HostError("begin the archive", err)
	}
	if _, err := p.file.Seek(0, io.SeekStart); err != nil {
		return sal.HostError("begin the archive", err)
	}
	p.hash.Reset()
	p.edition, p.length, p.far = a.Edition, 0, sal.Far(p.ctx, "fetched", a.Bytes)
	p.record.Own.Arrival = &arrival{Edition: a.Edition, Until: p.now().Add(arrivalKept)}
	return p.records().Put(p.record)
}

// most is how long an archive may be, in bytes.
func (p *part) most() int64 { return maxSpread * p.sizeGiB * gib }

// Write implements sal.Part.
func (p *part) Write(text []byte) (int, error) {
	if most := p.most(); p.length+int64(len(text)) > most { // whatever was said before, or is said of the rest
		return 0, writ.Errorf(writ.CodeQuotaExceeded, "the archive is longer than the %d bytes that the node takes for a volume of %d GiB", most, p.sizeGiB).
			WithHint("give it a bigger size_gib")
	}
	n, err := p.file.Write(text)
	p.hash.Write(text[:n])
	p.length += int64(n)
	p.far(p.length)
	return n, sal.HostError("write the archive", err)
}

// Sum implements sal.Part.
func (p *part) Sum() string { return hex.EncodeToString(p.hash.Sum(nil)) }

// complete records that all has arrived.
func (p *part) complete() error {
	p.step("sync the archive")
	if err := p.file.Sync(); err != nil {
		return sal.HostError("write the archive", err)
	}
	p.record.Own.Arrival.SHA256 = p.Sum()
	return p.records().Put(p.record)
}

// passes reports whether an attempt that failed so is worth going on with: what has arrived stays, unless it is what fills the disk. A run
// that was cancelled never goes on; one whose time was over may be resumed.
func passes(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return writ.CodeOf(context.Cause(ctx)) != writ.CodeRunCancelled
	}
	return writ.AsError(err).Retryable() && writ.CodeOf(err) != writ.CodeDiskFull
}
