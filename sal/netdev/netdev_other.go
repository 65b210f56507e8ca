//go:build !linux

package netdev

import (
	"context"

	"writ"
	"writ/sal"
)

func describeHost() string { return "this system has no network namespaces: only Linux has" }

func missing() error {
	return writ.Errorf(writ.CodeDriverMissing, "networks are made on Linux only")
}

// Do refuses.
func (d *Driver) Do(context.Context, sal.Request) (sal.Outcome, error) {
	return sal.Outcome{}, missing()
}

// Observe sees nothing.
func (d *Driver) Observe(context.Context, writ.ResourceID) (sal.Observation, error) {
	return sal.Observation{}, nil
}

// List returns nothing.
func (d *Driver) List(context.Context) ([]writ.ResourceID, error) { return nil, nil }

// Taps refuses.
func (d *Driver) Taps(context.Context, sal.Owner, []writ.Ref) ([]sal.Port, error) {
	return nil, missing()
}

// Namespace refuses.
func (d *Driver) Namespace(context.Context, sal.Owner, []writ.Ref) (string, []sal.Port, error) {
	return "", nil, missing()
}

// Release has nothing to do.
func (d *Driver) Release(context.Context, sal.Owner) error { return nil }

// Owners returns nobody.
func (d *Driver) Owners(context.Context) ([]sal.Owner, error) { return nil, nil }
