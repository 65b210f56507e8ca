package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// plugMemory makes the kernel bring new memory online automatically, as the udev rules of distributions do.
func plugMemory() error {
	err := os.WriteFile("/sys/devices/system/memory/auto_online_blocks", []byte("online"), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // not supported by this kernel
	}
	return err
}

// tellPlugged brings new CPUs online and returns a report of the CPUs and the memory in use. It prints the report if it
// differs from `before`.
func tellPlugged(before string) string {
	cpus, _ := filepath.Glob("/sys/devices/system/cpu/cpu[0-9]*")
	for _, cpu := range cpus {
		online := filepath.Join(cpu, "online") // the first CPU lacks the file
		if text, err := os.ReadFile(online); err == nil && strings.TrimSpace(string(text)) == "0" {
			_ = os.WriteFile(online, []byte("1"), 0) // fails if the CPU is being removed
		}
	}
	now := fmt.Sprintf("%d CPUs and %d MiB online", onlineIn("cpu/cpu[0-9]*", true), memoryMiB())
	if now != before {
		say("%s", now)
	}
	return now
}

// onlineIn counts the system devices that are online. A device without the file "online" counts if always is set.
func onlineIn(pattern string, always bool) (n int) {
	devices, _ := filepath.Glob("/sys/devices/system/" + pattern)
	for _, device := range devices {
		text, err := os.ReadFile(filepath.Join(device, "online"))
		if err != nil && always || strings.TrimSpace(string(text)) == "1" {
			n++
		}
	}
	return n
}

// memoryMiB returns the online memory, counted in whole memory blocks of the kernel.
func memoryMiB() int64 {
	text, err := os.ReadFile("/sys/devices/system/memory/block_size_bytes")
	if err != nil {
		return 0
	}
	size, err := strconv.ParseInt(strings.TrimSpace(string(text)), 16, 64)
	if err != nil {
		return 0
	}
	return int64(onlineIn("memory/memory[0-9]*", false)) * size >> 20
}
