//go:build !linux

package needs

import "errors"

func freeBytes(string) (int64, error) { return 0, errors.New("nodes need Linux") }
