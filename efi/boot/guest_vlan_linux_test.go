package boot_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// The VLAN of a guest: its id, and what its DHCP server and its card have there.
const (
	vlanID     = 7
	vlanServer = "192.0.2.1"
	vlanCard   = "192.0.2.7/24"
)

// Places in frames of a VLAN: the tag is between the addresses and the kind of the packet. IP and UDP have no options.
const (
	tagAt   = 12
	ipAt    = tagAt + 6
	udpAt   = ipAt + 20
	dhcpAt  = udpAt + 8
	tagKind = 0x8100
)

// serveVLAN is what a card of a guest is connected to: a switch with one VLAN, and a DHCP server in it that answers once it may. It returns the
// address for QEMU. A frame that is not of the VLAN is an error.
func serveVLAN(t *testing.T, may func() bool) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	over, ended := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { l.Close(); close(over); <-ended })
	go func() {
		defer close(ended)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		for {
			frame, err := readFrame(conn)
			if err != nil { // the guest has ended
				return
			}
			if binary.BigEndian.Uint16(frame[tagAt:]) != tagKind || binary.BigEndian.Uint16(frame[tagAt+2:])&0xfff != vlanID {
				t.Errorf("the card sends a frame that is not of its VLAN: %x", frame)
				continue
			}
			if answer := answerVLAN(frame); answer != nil {
				for !may() {
					select {
					case <-time.After(10 * time.Millisecond):
					case <-over:
						return
					}
				}
				_, _ = conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...))
			}
		}
	}()
	return l.Addr().String()
}

// readFrame reads a frame as QEMU writes it, after its length.
func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(r, frame); err != nil {
		return nil, err
	}
	if len(frame) < ipAt {
		return nil, errors.New("the frame is too short for a tag")
	}
	return frame, nil
}

// answerVLAN answers a frame with a question to a DHCP server, with its tag. It returns nil if it is another one.
func answerVLAN(frame []byte) []byte {
	if len(frame) < dhcpAt || binary.BigEndian.Uint16(frame[tagAt+4:]) != 0x0800 || binary.BigEndian.Uint16(frame[udpAt+2:]) != dhcpv4.ServerPort {
		return nil
	}
	question, err := dhcpv4.FromBytes(frame[dhcpAt:])
	if err != nil {
		return nil
	}
	kind, server, card := dhcpv4.MessageTypeOffer, net.ParseIP(vlanServer), netip.MustParsePrefix(vlanCard)
	if question.MessageType() == dhcpv4.MessageTypeRequest {
		kind = dhcpv4.MessageTypeAck
	}
	reply, err := dhcpv4.NewReplyFromRequest(question, dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(card.Addr().AsSlice()), dhcpv4.WithLeaseTime(3600),
		dhcpv4.WithNetmask(net.CIDRMask(card.Bits(), 32)), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(server)))
	if err != nil {
		return nil
	}
	text := reply.ToBytes()
	from := []byte{2, 0, 0, 0, 0, 1}
	ip := slices.Concat([]byte{0x45, 0}, binary.BigEndian.AppendUint16(nil, uint16(dhcpAt-ipAt+len(text))), []byte{0, 0, 0, 0, 64, 17, 0, 0}, server.To4(), net.IPv4bcast.To4())
	binary.BigEndian.PutUint16(ip[10:], checksum(ip))
	udp := binary.BigEndian.AppendUint16([]byte{0, dhcpv4.ServerPort, 0, dhcpv4.ClientPort}, uint16(dhcpAt-udpAt+len(text)))
	return slices.Concat(frame[6:12], from, frame[tagAt:ipAt], ip, udp, []byte{0, 0}, text)
}

// checksum is that of a header of IP.
func checksum(header []byte) uint16 {
	sum := uint32(0)
	for i := 0; i < len(header); i += 2 {
		sum += uint32(binary.BigEndian.Uint16(header[i:]))
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	return ^uint16(sum)
}
