package firewall

import (
	"encoding/binary"
	"net"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
)

// Expressions of rules. They all use one register.

const register = 1

// ifname returns the name of a device as the kernel compares it: padded with zeros.
func ifname(device string) []byte {
	b := make([]byte, nftables.TypeIFName.Bytes)
	copy(b, device)
	return b
}

func load(key expr.MetaKey) expr.Any { return &expr.Meta{Key: key, Register: register} }

func payload(base expr.PayloadBase, offset, length uint32) expr.Any {
	return &expr.Payload{DestRegister: register, Base: base, Offset: offset, Len: length}
}

func networkAt(offset, length uint32) expr.Any {
	return payload(expr.PayloadBaseNetworkHeader, offset, length)
}

func transport(offset, length uint32) expr.Any {
	return payload(expr.PayloadBaseTransportHeader, offset, length)
}

// Addresses of a packet.

func sourceMAC() expr.Any    { return payload(expr.PayloadBaseLLHeader, 6, 6) }
func source6() expr.Any      { return networkAt(8, net.IPv6len) }
func destination6() expr.Any { return networkAt(24, net.IPv6len) }
func source4() expr.Any      { return networkAt(12, net.IPv4len) }
func destination4() expr.Any { return networkAt(16, net.IPv4len) }

func compare(op expr.CmpOp, data []byte) expr.Any {
	return &expr.Cmp{Op: op, Register: register, Data: data}
}

func equals(value expr.Any, data []byte) []expr.Any {
	return []expr.Any{value, compare(expr.CmpOpEq, data)}
}

func differs(value expr.Any, data []byte) []expr.Any {
	return []expr.Any{value, compare(expr.CmpOpNeq, data)}
}

func meta(key expr.MetaKey, data []byte) []expr.Any { return equals(load(key), data) }

// family matches packets of one family.
func family(proto byte) []expr.Any { return meta(expr.MetaKeyNFPROTO, []byte{proto}) }

// protocol matches packets of one transport protocol.
func protocol(number byte) []expr.Any { return meta(expr.MetaKeyL4PROTO, []byte{number}) }

// etherType matches frames of one type.
func etherType(number uint16) []expr.Any {
	return meta(expr.MetaKeyPROTOCOL, binary.BigEndian.AppendUint16(nil, number))
}

// within matches packets whose address, which `value` loads, is in a range.
func within(value expr.Any, p netip.Prefix) []expr.Any {
	n := uint32(p.Addr().BitLen() / 8)
	return []expr.Any{
		value,
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: n, Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen()),
			Xor: make([]byte, n),
		}, compare(expr.CmpOpEq, p.Masked().Addr().AsSlice()),
	}
}

// established matches packets of existing connections and packets that are related to them, such as ICMP errors.
func established() []expr.Any {
	return []expr.Any{
		&expr.Ct{Key: expr.CtKeySTATE, Register: register},
		&expr.Bitwise{
			SourceRegister: register, DestRegister: register, Len: 4,
			Mask: binaryutil.NativeEndian.PutUint32(expr.CtStateBitESTABLISHED | expr.CtStateBitRELATED),
			Xor:  make([]byte, 4),
		},
		compare(expr.CmpOpNeq, make([]byte, 4)),
	}
}

// inSet matches packets if the value loaded before is in the next set of the rule.
func inSet() expr.Any { return &expr.Lookup{SourceRegister: register} }

// lookupMap jumps to the chain that the map `name` contains for the key that `value` loads.
func lookupMap(value expr.Any, name string) []expr.Any {
	return []expr.Any{value, &expr.Lookup{SourceRegister: register, DestRegister: 0, IsDestRegSet: true, SetName: name}}
}

func jumpBy(key expr.MetaKey, name string) []expr.Any { return lookupMap(load(key), name) }

func accept() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictAccept}} }

func done() []expr.Any { return []expr.Any{&expr.Verdict{Kind: expr.VerdictReturn}} }

func jump(chain string) []expr.Any {
	return []expr.Any{&expr.Verdict{Kind: expr.VerdictJump, Chain: chain}}
}

// drop counts and drops a packet.
func drop(counter string) []expr.Any {
	return []expr.Any{
		&expr.Objref{Type: int(nftables.ObjTypeCounter), Name: counter}, &expr.Verdict{Kind: expr.VerdictDrop},
	}
}
