package volume

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"writ"
	"writ/sal"
)

var _ sal.Shipper = (*Driver)(nil)

// shipment is content kept for another node, in a hidden snapshot. For its fields, see sal.Shipment and sal.Archive.
type shipment struct {
	Transfer string    `json:"transfer"`
	Edition  string    `json:"edition"`
	Due      time.Time `json:"due"`
	Until    time.Time `json:"until"`
}

// hiddenMark is the prefix of snapshots for shipments. A script cannot request a snapshot with this prefix.
const hiddenMark = "~"

func (s shipment) snapshot() string { return hiddenMark + s.Edition }

// maxShipments limits the shipments that a volume keeps at a time.
const maxShipments = 8

// Ship implements sal.Shipper. It keeps the current content in a hidden snapshot. If s names a snapshot, it uses that
// snapshot, because a snapshot does not change.
func (d *Driver) Ship(ctx context.Context, s sal.Shipment) (sal.Archive, error) {
	r, err := findComplete(d.records(), s.Resource.Project, writ.Ref{Kind: s.Resource.Kind, Name: s.Resource.Name, UID: s.UID})
	if err != nil {
		return sal.Archive{}, err
	}
	j := d.job(sal.Request{Resource: s.Resource, UID: s.UID})
	edition, snapshot := string(s.UID)+" "+s.Snapshot, s.Snapshot
	if s.Snapshot != "" {
		err = checkSnapshot(ctx, j.Trees, s.Resource, s.Snapshot)
	} else {
		edition, err = j.freeze(ctx, r, s)
		snapshot = shipment{Edition: edition}.snapshot()
	}
	if err != nil {
		return sal.Archive{}, err
	}
	dir, done, err := j.Trees.View(ctx, j.name, snapshot)
	if err != nil {
		return sal.Archive{}, err
	}
	bytes, err := packedSize(ctx, dir)
	if err != nil {
		err = errors.Join(err, done())
		return sal.Archive{}, sal.HostError("measure "+s.Resource.String(), err)
	}
	return sal.Archive{
		Edition: edition, Bytes: bytes, SizeGiB: r.Own.SizeGiB,
		Write: func(ctx context.Context, to io.Writer) error { return pack(ctx, to, dir) },
		Close: done,
	}, nil
}

// freeze creates or extends the shipment and returns its edition.
func (j *job) freeze(ctx context.Context, r *record, s sal.Shipment) (edition string, err error) {
	i := slices.IndexFunc(r.Own.Shipments, func(kept shipment) bool { return kept.Transfer == s.Transfer })
	switch {
	case i < 0:
		if err := j.makeRoom(ctx, r); err != nil {
			return "", err
		}
		i = len(r.Own.Shipments)
		r.Own.Shipments = append(r.Own.Shipments, shipment{s.Transfer, writ.NewUUID(), s.Due, s.Until})
		err = j.records().Put(r)
	case r.Own.Shipments[i].Until.Before(s.Until):
		r.Own.Shipments[i].Due, r.Own.Shipments[i].Until = s.Due, s.Until
		err = j.records().Put(r)
	}
	if err != nil {
		return "", err
	}
	kept := r.Own.Shipments[i]
	return kept.Edition, j.Trees.Snapshot(ctx, j.name, kept.snapshot()) // an existing snapshot stays unchanged
}

// makeRoom removes the shipment with the earliest due time if the volume has maxShipments. It returns RESOURCE_BUSY if
// that time has not passed.
func (j *job) makeRoom(ctx context.Context, r *record) error {
	if len(r.Own.Shipments) < maxShipments {
		return nil
	}
	all := slices.SortedFunc(slices.Values(r.Own.Shipments),
		func(a, b shipment) int { return a.due().Compare(b.due()) })
	if first := all[0]; first.due().Before(j.now()) {
		return j.releaseShipments(ctx, r, func(kept shipment) bool { return kept.Transfer == first.Transfer })
	}
	said := make([]string, len(all))
	for i, kept := range all {
		said[i] = fmt.Sprintf("%s until %s", kept.Transfer, kept.due().UTC().Format(time.DateTime))
	}
	return writ.Errorf(writ.CodeResourceBusy, "%s already has %d copies in progress to other nodes (UTC): %s",
		r.Resource, len(all), strings.Join(said, ", ")).
		WithHint("the call continues when one of these copies is finished; `writ run cancel` ends one")
}

// due returns when another shipment may replace this one. Records of earlier versions have only Until.
func (s shipment) due() time.Time {
	if s.Due.IsZero() {
		return s.Until
	}
	return s.Due
}

// Shipped implements sal.Shipper. It removes the shipment and its snapshot.
func (d *Driver) Shipped(ctx context.Context, s sal.Shipment) error {
	r, err := d.records().Get(s.Resource)
	if err != nil || r == nil || r.UID != s.UID || r.Own.Phase != ready {
		return err
	}
	return d.job(sal.Request{Resource: s.Resource, UID: s.UID}).releaseShipments(ctx, r,
		func(kept shipment) bool { return kept.Transfer == s.Transfer })
}

// releaseShipments removes the shipments that the function `over` selects, and their snapshots.
func (j *job) releaseShipments(ctx context.Context, r *record, over func(shipment) bool) error {
	if !slices.ContainsFunc(r.Own.Shipments, over) {
		return nil
	}
	for _, kept := range r.Own.Shipments {
		if !over(kept) {
			continue
		}
		if err := j.Trees.RemoveSnapshot(ctx, j.name, kept.snapshot()); err != nil {
			return err
		}
	}
	r.Own.Shipments = slices.DeleteFunc(r.Own.Shipments, over)
	return j.records().Put(r)
}
