// Package nested is a test that runs machines with the real cloud-hypervisor. The node is a QEMU machine whose emulated
// processor has AMD's virtualization, so the host needs no KVM. The package contains only tests.
package nested
