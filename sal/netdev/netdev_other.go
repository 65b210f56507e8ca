//go:build !linux

package netdev

import (
	"context"

	"writ"
	"writ/sal"
)

func describeHost() string { return "network namespaces need Linux" }

func missing() error {
	return writ.Errorf(writ.CodeDriverMissing, "networks need Linux")
}

// Do returns DRIVER_MISSING.
func (d *Driver) Do(context.Context, sal.Request) (sal.Outcome, error) {
	return sal.Outcome{}, missing()
}

// Taps returns DRIVER_MISSING.
func (d *Driver) Taps(context.Context, sal.Owner, []writ.Ref) ([]sal.Port, error) {
	return nil, missing()
}

// Namespace returns DRIVER_MISSING.
func (d *Driver) Namespace(context.Context, sal.Owner, []writ.Ref) (string, []sal.Port, error) {
	return "", nil, missing()
}

// Release has no effect.
func (d *Driver) Release(context.Context, sal.Owner) error { return nil }
