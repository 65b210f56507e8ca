package writ

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Capacity is an amount of CPUs, memory and disk space that a node has or a resource uses.
type Capacity struct {
	CPUs       int64 `json:"cpus"`                     // whole CPUs
	Hundredths int64 `json:"cpu_hundredths,omitempty"` // further hundredths of a CPU, 0 to 99
	MemoryMiB  int64 `json:"memory_mib"`
	DiskGiB    int64 `json:"disk_gib"`
}

// CPU returns the CPUs with their fraction.
func (c Capacity) CPU() Hundredths { return Hundredths(c.CPUs*100 + c.Hundredths) }

// WithCPU returns c with another amount of CPUs.
func (c Capacity) WithCPU(h Hundredths) Capacity {
	c.CPUs, c.Hundredths = int64(h)/100, int64(h)%100
	if c.Hundredths < 0 {
		c.CPUs, c.Hundredths = c.CPUs-1, c.Hundredths+100
	}
	return c
}

// Plus returns c + d.
func (c Capacity) Plus(d Capacity) Capacity {
	return Capacity{MemoryMiB: c.MemoryMiB + d.MemoryMiB, DiskGiB: c.DiskGiB + d.DiskGiB}.WithCPU(c.CPU() + d.CPU())
}

// Minus returns c - d, which may be negative.
func (c Capacity) Minus(d Capacity) Capacity {
	return Capacity{MemoryMiB: c.MemoryMiB - d.MemoryMiB, DiskGiB: c.DiskGiB - d.DiskGiB}.WithCPU(c.CPU() - d.CPU())
}

// Holds reports whether d fits into c.
func (c Capacity) Holds(d Capacity) bool {
	return d.CPU() <= c.CPU() && d.MemoryMiB <= c.MemoryMiB && d.DiskGiB <= c.DiskGiB
}

// MarshalJSON writes the CPUs as one decimal number. Other encodings have them in two integers.
func (c Capacity) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"cpus":%s,"memory_mib":%d,"disk_gib":%d}`, c.CPU(), c.MemoryMiB, c.DiskGiB), nil
}

// UnmarshalJSON reads the form of MarshalJSON.
func (c *Capacity) UnmarshalJSON(text []byte) error {
	type other Capacity // without this method
	read := struct {
		CPUs json.Number `json:"cpus"`
		*other
	}{"0", (*other)(c)}
	if err := json.Unmarshal(text, &read); err != nil {
		return err
	}
	h, err := ParseHundredths(read.CPUs.String())
	*c = c.WithCPU(h)
	return err
}

// Hundredths is a number with two decimal places: 25 is 0.25.
type Hundredths int64

var decimalPattern = regexp.MustCompile(`^-?[0-9]{1,15}(\.[0-9]{1,2}0*)?$`)

// ParseHundredths reads a decimal number such as 2, 0.5 or 0.25.
func ParseHundredths(text string) (Hundredths, error) {
	if !decimalPattern.MatchString(text) {
		return 0, fmt.Errorf("%q is not a number with at most two decimal places", text)
	}
	whole, fraction, _ := strings.Cut(text, ".")
	n, err := strconv.ParseInt(whole+(fraction + "00")[:2], 10, 64)
	return Hundredths(n), err
}

// String formats the number without unnecessary zeros: "2", "0.5" or "0.25".
func (h Hundredths) String() string {
	text := strconv.FormatFloat(float64(h)/100, 'f', 2, 64)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}
