// Package nested is a test: a node runs machines with the real cloud-hypervisor on a machine in QEMU, whose emulated
// processor has AMD's virtualization. So it needs no KVM of this host. It has no code but tests.
package nested
