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
	"writ/internal/ctxio"
	"writ/sal"
	"writ/sal/catalog"
)

// An archive from another node is written to a file below Dir/arriving. Once it is complete, it is unpacked into a
// tree. A partial file survives failed attempts and restarts. The field Arrival of the volume's record identifies the
// archive. The file is deleted with the record, or when the volume is complete.

const (
	// arrivalTTL is how long a partial archive is kept after the last attempt. Further attempts of the same call come
	// sooner.
	arrivalTTL = 24 * time.Hour
	// maxSpread limits the size of an archive, as a multiple of the size of its volume. An archive can exceed that size,
	// because the header of a small file is larger than the file.
	maxSpread = 4
	// cancelledDoneTimeout limits the message to the other node after cancellation. A runner gives a driver 2 s to
	// stop.
	cancelledDoneTimeout = 1500 * time.Millisecond
)

// arrival is the state of the archive from which a volume is being made.
type arrival struct {
	Edition string    `json:"edition"`
	SHA256  string    `json:"sha256,omitempty"` // set once the archive is complete
	Until   time.Time `json:"until"`            // expiry, renewed by each attempt
}

// arrivalPath returns the path of the partial archive.
func (j *job) arrivalPath() string { return filepath.Join(j.Dir, "arriving", j.name+".tar") }

// removeArrival removes the partial archive. It ignores errors: a file that remains is harmless.
//
//failpoint:none it removes a file that arrived and is not needed, which does no harm if it stays
func (j *job) removeArrival() { _ = os.Remove(j.arrivalPath()) }

// copyContent returns the filling for volume.copy: a local clone, or an archive from another node.
func (j *job) copyContent(ctx context.Context, args *catalog.VolumeCopy) (filling, error) {
	if j.Origin == nil {
		return j.cloneContent(ctx,
			&catalog.VolumeClone{From: args.From, Snapshot: args.Snapshot, SizeGiB: args.SizeGiB})
	}
	return filling{sizeGiB: args.SizeGiB, resumes: true, into: func(ctx context.Context, r *record) error {
		return j.arrive(ctx, r, args)
	}}, nil
}

// earlierArrival returns the arrival of an earlier attempt at the same volume, or nil if no attempt can be resumed. It
// renews the expiry.
func (j *job) earlierArrival(r *record) (*arrival, error) {
	half, err := j.records().Get(j.Resource)
	if err != nil || half == nil || half.Own.Arrival == nil || half.UID != r.UID || half.Operation != r.Operation {
		return nil, err
	}
	if mutable, immutable := j.Operation.Args.Changed(half.Spec, r.Spec); len(mutable)+len(immutable) > 0 {
		return nil, nil
	}
	half.Own.Arrival.Until = j.now().Add(arrivalTTL)
	return half.Own.Arrival, nil
}

// arrive fetches the missing part of the archive and unpacks the archive into a tree.
func (j *job) arrive(ctx context.Context, r *record, args *catalog.VolumeCopy) (err error) {
	defer func() {
		if err == nil || !isResumable(ctx, err) {
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
	from := archived{name: "archive of the " + string(args.From.Kind) +
		" " + args.From.Name, sizeGiB: args.SizeGiB, sha256: r.Own.Arrival.SHA256}
	return j.receive(ctx, p.file, from)
}

// done releases the archive on the other node. After cancellation, it gives up within cancelledDoneTimeout; an archive
// that was not released expires.
func (j *job) done(ctx context.Context, snapshot string) {
	telling, stop := context.WithoutCancel(ctx), func() {}
	if ctx.Err() != nil {
		telling, stop = context.WithTimeout(telling, cancelledDoneTimeout)
	}
	defer stop()
	j.Origin.Done(telling, snapshot)
}

// part is an archive that is being written to a file.
type part struct {
	*job
	ctx     context.Context // context of the operation
	record  *record
	sizeGiB int64 // size of the volume
	file    *os.File
	edition string
	hash    hash.Hash
	length  int64
	far     func(int64)
}

var _ sal.Part = (*part)(nil)

// openPart opens the partial archive. It is empty unless the record has an arrival.
func (j *job) openPart(ctx context.Context, r *record, sizeGiB int64) (*part, error) {
	j.step("make room for archives")
	if err := sal.MakeDir(filepath.Dir(j.arrivalPath())); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(j.arrivalPath(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	p := &part{
		job: j, ctx: ctx, record: r, sizeGiB: sizeGiB, file: f, hash: sha256.New(), far: sal.Far(ctx, "fetched", 0),
	}
	if r.Own.Arrival == nil {
		return p, nil
	}
	p.edition = r.Own.Arrival.Edition
	if p.length, err = io.Copy(p.hash, &ctxio.Reader{Ctx: ctx, From: f}); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return p, nil
}

// At implements sal.Part.
func (p *part) At() (edition string, offset int64) { return p.edition, p.length }

// Begin implements sal.Part. It records the edition before any byte is written.
func (p *part) Begin(a sal.Archive) error {
	if p.sizeGiB < a.SizeGiB {
		return tooSmall(p.Resource, p.sizeGiB, fmt.Sprintf("%d GiB", a.SizeGiB))
	}
	if most := p.most(); a.Bytes > most {
		return writ.Errorf(writ.CodeQuotaExceeded,
			"the archive has %d bytes; for a volume of %d GiB, the node accepts at most %d", a.Bytes, p.sizeGiB, most).
			WithHint("use a larger size_gib")
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
	p.record.Own.Arrival = &arrival{Edition: a.Edition, Until: p.now().Add(arrivalTTL)}
	return p.records().Put(p.record)
}

// most returns the maximum size of the archive in bytes.
func (p *part) most() int64 { return maxSpread * p.sizeGiB * gib }

// Write implements sal.Part.
func (p *part) Write(text []byte) (int, error) {
	if most := p.most(); p.length+int64(len(text)) > most { // do not trust the announced size
		return 0, writ.Errorf(writ.CodeQuotaExceeded,
			"the archive exceeds the %d bytes that the node accepts for a volume of %d GiB", most, p.sizeGiB).
			WithHint("use a larger size_gib")
	}
	n, err := p.file.Write(text)
	p.hash.Write(text[:n])
	p.length += int64(n)
	p.far(p.length)
	return n, sal.HostError("write the archive", err)
}

// Sum implements sal.Part.
func (p *part) Sum() string { return hex.EncodeToString(p.hash.Sum(nil)) }

// complete syncs the archive and records its digest.
func (p *part) complete() error {
	p.step("sync the archive")
	if err := p.file.Sync(); err != nil {
		return sal.HostError("write the archive", err)
	}
	p.record.Own.Arrival.SHA256 = p.Sum()
	return p.records().Put(p.record)
}

// isResumable reports whether a later attempt may resume after this error, so that the partial archive is kept. It
// returns false if the run was cancelled, the error is permanent, or the disk is full. It returns true if ctx ended for
// any other reason, such as a deadline.
func isResumable(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return writ.CodeOf(context.Cause(ctx)) != writ.CodeRunCancelled
	}
	return writ.AsError(err).Retryable() && writ.CodeOf(err) != writ.CodeDiskFull
}
