package limit

import "net"

// Listener returns a listener whose connections each hold a place while they are open. A connection without a place is
// closed at once.
func (s *Shares) Listener(l net.Listener) net.Listener { return &sharedListener{l, s} }

type sharedListener struct {
	net.Listener
	shares *Shares
}

func (l *sharedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if leave, ok := l.shares.Enter(conn.RemoteAddr().String()); ok {
			return &sharedConn{conn, leave}, nil
		}
		_ = conn.Close()
	}
}

type sharedConn struct {
	net.Conn
	leave func()
}

func (c *sharedConn) Close() error {
	c.leave()
	return c.Conn.Close()
}
