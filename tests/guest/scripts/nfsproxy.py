"""A TCP proxy before nfsd that spoils chosen READ and WRITE requests on their way.

    nfsproxy.py LOG SOCKET PORT...

Listens on each 127.0.0.1:PORT and passes ONC RPC records on to 127.0.0.1:2049. On the Unix socket SOCKET it
takes one JSON object per line, a fault to inject, and answers `ok`; what it really did goes to LOG, one JSON
object per line. A fault is

    case       a name for the log
    port       the listening port
    direction  read or write
    offset     the request's offset in the file; the next request that matches is the one
    times      how many such requests (1)
    delay      seconds before the reply is handed on (0), and one of:
    kind       short   bytes: so many are asked for instead, or written
               status  status: the operation's status in the reply
               drop    break: the reply is swallowed, the connection broken `delay` seconds later (true), or kept
               hold    the reply is handed on after `delay` seconds

The server really answers what it was asked: a short read is asked short. Only a status is put into the reply,
and cuts a COMPOUND there. XDR: RFC 5531 (RPC), RFC 1813 (v3), RFC 7530, 8881, 7862 (v4.0 to v4.2).
"""

import asyncio
import json
import struct
import sys
import time

SERVER = ("127.0.0.1", 2049)
NFS_PROGRAM = 100003
CALL, REPLY = 0, 1
V3_READ, V3_WRITE, V4_COMPOUND = 6, 7, 1
OP_PUTFH, OP_READ, OP_WRITE, OP_SEQUENCE, OP_READ_PLUS = 22, 25, 38, 53, 68
NAMES = {OP_READ: "READ", OP_WRITE: "WRITE", OP_READ_PLUS: "READ_PLUS"}
# Bytes of a successful result, including its operation number and status (RFC 8881, 18.46 and 18.22).
RESULT_BYTES = {OP_SEQUENCE: 44, OP_PUTFH: 8}
STATEID_BYTES = 16


class Xdr:
    """Reads XDR items one after the other."""

    def __init__(self, data, at=0):
        self.data, self.at = data, at

    def u32(self):
        self.at += 4
        return struct.unpack_from(">I", self.data, self.at - 4)[0]

    def u64(self):
        self.at += 8
        return struct.unpack_from(">Q", self.data, self.at - 8)[0]

    def skip(self, size):
        self.at += size

    def opaque(self):
        """Skips an opaque; returns where its length stands, and the length."""
        at, size = self.at, self.u32()
        self.at += -(-size // 4) * 4
        return at, size


class Transfer:
    """Where a call says how much is to be read or written."""

    def __init__(self, version, op, offset, asked, count_at, data_at, before):
        self.version, self.op, self.offset, self.asked = version, op, offset, asked
        self.count_at, self.data_at = count_at, data_at
        self.before = before  # operations of the COMPOUND before this one

    @property
    def direction(self):
        return "write" if self.op == OP_WRITE else "read"


def v3_transfer(xdr, op):
    xdr.opaque()  # file handle
    offset, count_at, asked = xdr.u64(), xdr.at, xdr.u32()
    if op == OP_READ:
        return Transfer(3, op, offset, asked, count_at, None, [])
    xdr.u32()  # stable_how
    return Transfer(3, op, offset, asked, count_at, xdr.at, [])


def v4_transfer(xdr):
    xdr.opaque()  # tag
    version, before = 4 + xdr.u32() / 10, []
    for _ in range(xdr.u32()):
        op = xdr.u32()
        if op == OP_SEQUENCE:
            xdr.skip(32)
        elif op == OP_PUTFH:
            xdr.opaque()
        elif op in (OP_READ, OP_READ_PLUS):
            xdr.skip(STATEID_BYTES)
            offset, count_at = xdr.u64(), xdr.at
            return Transfer(version, op, offset, xdr.u32(), count_at, None, before)
        elif op == OP_WRITE:
            xdr.skip(STATEID_BYTES)
            offset = xdr.u64()
            xdr.u32()  # stable_how
            data_at, asked = xdr.opaque()
            return Transfer(version, op, offset, asked, None, data_at, before)
        else:
            return None
        before.append(op)
    return None


def parse_call(record):
    """The READ or WRITE in a call, if that is what it is; and its transaction id."""
    xdr = Xdr(record)
    xid = xdr.u32()
    if xdr.u32() != CALL:
        return xid, None
    xdr.u32()  # RPC version
    program, version, procedure = xdr.u32(), xdr.u32(), xdr.u32()
    for _ in ("credential", "verifier"):
        xdr.u32()
        xdr.opaque()
    if program != NFS_PROGRAM:
        return xid, None
    if version == 3 and procedure in (V3_READ, V3_WRITE):
        return xid, v3_transfer(xdr, OP_READ if procedure == V3_READ else OP_WRITE)
    if version == 4 and procedure == V4_COMPOUND:
        return xid, v4_transfer(xdr)
    return xid, None


def shortened(record, transfer, size):
    """The call with fewer bytes asked for, or written."""
    record = bytearray(record)
    if transfer.count_at is not None:
        struct.pack_into(">I", record, transfer.count_at, size)
    if transfer.data_at is not None:
        (old,) = struct.unpack_from(">I", record, transfer.data_at)
        struct.pack_into(">I", record, transfer.data_at, size)
        data = transfer.data_at + 4
        del record[data + size : data + -(-old // 4) * 4]
    return bytes(record)


def with_status(record, transfer, status):
    """The reply as if the operation had ended with that status; None if the server itself reported a failure."""
    xdr = Xdr(record, 8)
    xdr.u32()  # accepted
    xdr.u32()
    xdr.opaque()  # verifier
    xdr.u32()  # success
    head, body = record[: xdr.at], Xdr(record, xdr.at)
    if body.u32() != 0:
        return None
    if transfer.version == 3:
        # No attributes: post_op_attr of a READ; wcc_data, two of them, of a WRITE.
        absent = 2 if transfer.op == OP_WRITE else 1
        return head + struct.pack(">I", status) + bytes(4 * absent)
    tag_at = body.at
    body.opaque()
    tag = record[tag_at : body.at]
    body.u32()  # number of results
    results_at = body.at
    body.skip(sum(RESULT_BYTES[op] for op in transfer.before))
    results = record[results_at : body.at]
    count = len(transfer.before) + 1
    return (
        head + struct.pack(">I", status) + tag + struct.pack(">I", count)
        + results + struct.pack(">II", transfer.op, status)
    )


class Proxy:
    def __init__(self, log):
        self.log_file = log
        self.armed = []
        self.swallowed = set()  # transaction ids

    def log(self, **what):
        self.log_file.write(json.dumps({"at": round(time.monotonic(), 3), **what}) + "\n")
        self.log_file.flush()

    def take(self, port, transfer):
        """The fault that is meant for this request."""
        for fault in self.armed:
            if (fault["port"], fault["direction"], fault["offset"]) == (port, transfer.direction, transfer.offset):
                fault["times"] = fault.get("times", 1) - 1
                if fault["times"] == 0:
                    self.armed.remove(fault)
                return fault
        return None

    async def control(self, reader, writer):
        async for line in reader:
            self.armed.append(json.loads(line))
            writer.write(b"ok\n")
        writer.close()

    async def serve(self, port, reader, writer):
        try:
            server = await asyncio.open_connection(*SERVER, limit=1 << 22)
        except OSError:
            writer.close()
            return
        connection = Connection(self, port, (reader, writer), server)
        await connection.run()


class Connection:
    """A client's connection, and the one to the server that belongs to it."""

    def __init__(self, proxy, port, client, server):
        self.proxy, self.port = proxy, port
        self.client_reader, self.client_writer = client
        self.server_reader, self.server_writer = server
        self.waiting = {}  # transaction id: (fault, transfer)

    async def run(self):
        pumps = [asyncio.ensure_future(pump) for pump in (self.to_server(), self.to_client())]
        await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        for pump in pumps:
            pump.cancel()
        results = await asyncio.gather(*pumps, return_exceptions=True)
        self.close()
        for result in results:
            ended = (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError, type(None))
            if not isinstance(result, ended):
                raise result

    def close(self):
        self.client_writer.transport.abort()
        self.server_writer.transport.abort()

    async def to_server(self):
        while True:
            record = await read_record(self.client_reader)
            xid, transfer = parse_call(record)
            if xid in self.proxy.swallowed:
                self.proxy.log(kind="again", port=self.port, xid=xid)
            fault = transfer and self.proxy.take(self.port, transfer)
            if fault:
                record = self.spoil_call(record, xid, transfer, fault)
            write_record(self.server_writer, record)
            await self.server_writer.drain()

    def spoil_call(self, record, xid, transfer, fault):
        if fault["kind"] == "short":
            self.log(fault, transfer, xid)
            return shortened(record, transfer, fault["bytes"])
        self.waiting[xid] = fault, transfer
        return record

    async def to_client(self):
        while True:
            record = await read_record(self.server_reader)
            xid, kind = struct.unpack_from(">II", record)
            if kind == REPLY and xid in self.waiting:
                record = self.spoil_reply(record, xid)
            if record:
                write_record(self.client_writer, record)
                await self.client_writer.drain()

    def spoil_reply(self, record, xid):
        fault, transfer = self.waiting.pop(xid)
        if fault["kind"] == "status":
            spoilt = with_status(record, transfer, fault["status"])
            if spoilt:
                self.log(fault, transfer, xid)
            return spoilt or record
        self.log(fault, transfer, xid)
        later = asyncio.get_running_loop().call_later
        if fault["kind"] == "hold":
            later(fault["delay"], write_record, self.client_writer, record)
        else:
            self.proxy.swallowed.add(xid)
            if fault["break"]:
                later(fault["delay"], self.close)
        return None

    def log(self, fault, transfer, xid, **more):
        self.proxy.log(
            case=fault["case"], kind=fault["kind"], port=self.port, version=transfer.version,
            op=NAMES[transfer.op], offset=transfer.offset, asked=transfer.asked, xid=xid, **more,
        )


async def read_record(reader):
    """One RPC record, its fragments put together."""
    record, last = b"", False
    while not last:
        (mark,) = struct.unpack(">I", await reader.readexactly(4))
        last, size = bool(mark >> 31), mark & 0x7FFFFFFF
        record += await reader.readexactly(size)
    return record


def write_record(writer, record):
    writer.write(struct.pack(">I", 1 << 31 | len(record)) + record)


async def main(log, socket, ports):
    proxy = Proxy(open(log, "a", encoding="utf-8"))
    for port in ports:
        await asyncio.start_server(lambda r, w, port=port: proxy.serve(port, r, w), "127.0.0.1", port, limit=1 << 22)
    # Create this socket last: its existence means that everything listens.
    await asyncio.start_unix_server(proxy.control, socket)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], [int(port) for port in sys.argv[3:]]))
