"""The way to a server: a proxy on a port that stays the same. It can be closed, cut, slow, and it counts bytes."""

import queue
import socket
import threading
import time


# The bytes of TCP in a packet of Ethernet.
PACKET_BYTES = 1_448


class Gate(threading.Thread):
    """A proxy to an address of a server.

    `delay_s` is the time that bytes are under way, in each direction. With `bytes_per_s`, all connections together have
    this rate in each direction, and a connection is established after the time of both ways.
    """

    def __init__(self, find_address, delay_s=0.0, bytes_per_s=None):
        super().__init__(daemon=True)
        self.find_address = find_address
        self.delay_s = delay_s
        self.bytes_per_s = bytes_per_s
        # The moment from which on the line is free, from the client and from the server.
        self.free_at = {False: 0.0, True: 0.0}
        self.line_lock = threading.Lock()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        self.is_open = True
        # The number of bytes from the server after which the connections are cut, or None.
        self.bytes_left = None
        # The number of bytes that the server has sent.
        self.bytes_sent = 0
        self.sockets = []
        self.start()

    def run(self):
        while True:
            client, _ = self.listener.accept()
            try:
                if not self.is_open:
                    raise OSError("the gate is closed")
                there = socket.create_connection(self.find_address(), timeout=5)
            except (OSError, KeyError):
                client.close()
                continue
            there.settimeout(None)
            for end in (client, there):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.sockets += [client, there]
            for pair in ((client, there, False), (there, client, True)):
                threading.Thread(target=self.copy, args=pair, daemon=True).start()

    def copy(self, source, target, is_reply):
        """Copies bytes until one side closes, or the connection is cut."""
        send = self.delayed(target, is_reply) if self.delay_s else target.sendall
        try:
            while True:
                piece = source.recv(65_536)
                if not piece:
                    break
                if is_reply:
                    if self.bytes_left is not None:
                        piece = piece[:self.bytes_left]
                        self.bytes_left -= len(piece)
                    self.bytes_sent += len(piece)
                send(piece)
                if self.bytes_left == 0:
                    self.cut()
        except OSError:
            pass
        if self.delay_s:
            send(b"")
            return
        for end in (source, target):
            shut(end)

    def delayed(self, target, is_reply):
        """Starts a thread that sends each piece when its time has passed. Returns the function that takes pieces, and an empty one at the end."""
        pieces = queue.SimpleQueue()

        def send_late():
            try:
                while True:
                    due, piece = pieces.get()
                    time.sleep(max(0.0, due - time.monotonic()))
                    if not piece:
                        break
                    target.sendall(piece)
            except OSError:
                pass
            shut(target)

        begin = time.monotonic() + (2 * self.delay_s if self.bytes_per_s and not is_reply else 0.0)

        def take(piece):
            for at in range(0, max(1, len(piece)), PACKET_BYTES):
                packet = piece[at:at + PACKET_BYTES]
                pieces.put((max(begin, self.sent_at(packet, is_reply)) + self.delay_s, packet))

        threading.Thread(target=send_late, daemon=True).start()
        return take

    def sent_at(self, packet, is_reply):
        """Returns the moment at which the line has taken a packet."""
        if not self.bytes_per_s:
            return time.monotonic()
        with self.line_lock:
            free = max(time.monotonic(), self.free_at[is_reply])
            self.free_at[is_reply] = free + len(packet) / self.bytes_per_s
            return self.free_at[is_reply]

    def cut(self):
        """Cuts all connections."""
        self.bytes_left = None
        for end in self.sockets:
            shut(end)
        self.sockets = []


def shut(end):
    """Closes both directions of a socket."""
    try:
        end.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    end.close()
