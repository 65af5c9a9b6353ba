// Judge answers questions about values with Apache Cassandra's own classes, so
// that tests of internal/row can compare with them. It reads one question per
// line and prints one answer per line. Fields are separated by tabs; values are
// hexadecimal, "-" is null and "" is the empty value; texts are hexadecimal
// UTF-8. Answers begin with "= "; other lines are logs of Cassandra.
//
//	compare TYPE A B    -1, 0 or 1
//	validate TYPE A     ok, or "error" and the message
//	text TYPE A         the text of a cast to text
//	literal TYPE A      the value as Cassandra prints it in CQL
//	json TYPE A         the value in SELECT JSON
//	parse TYPE TEXT     the value of a text, or "error" and the message
//	fromjson TYPE TEXT  the value of a JSON text, or "error" and the message
//	plus TYPE A D       a date or timestamp plus a duration, or "error" and the message
//	minus TYPE A D      the same, minus the duration
//	todate A            the date of a timestamp
//	token A             the token of a routing key
//	reconcile C D       the winner of two cells KIND:TIMESTAMP:TTL:SECOND:VALUE
//	merge R S           the merge of two rows, each a list of parts with blanks:
//	                    marker/L, deletion/TIMESTAMP:SECOND, cell/COLUMN/C,
//	                    elements/COLUMN/TIMESTAMP:SECOND and element/COLUMN/N/C,
//	                    of the columns 0 to 3, of which 2 and 3 are set<int>
//	marker L M          the winner of two row markers TIMESTAMP:TTL:SECOND
//
// It defines the type pair (a int, b text) in the keyspace ks.

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;
import org.apache.cassandra.config.DatabaseDescriptor;
import org.apache.cassandra.cql3.Json;
import org.apache.cassandra.cql3.QueryOptions;
import org.apache.cassandra.cql3.Term;
import org.apache.cassandra.db.Clustering;
import org.apache.cassandra.db.DeletionTime;
import org.apache.cassandra.db.LivenessInfo;
import org.apache.cassandra.db.marshal.AbstractType;
import org.apache.cassandra.db.marshal.BytesType;
import org.apache.cassandra.db.marshal.CounterColumnType;
import org.apache.cassandra.db.marshal.Int32Type;
import org.apache.cassandra.db.marshal.LongType;
import org.apache.cassandra.db.marshal.SetType;
import org.apache.cassandra.db.marshal.SimpleDateType;
import org.apache.cassandra.db.marshal.TemporalType;
import org.apache.cassandra.db.rows.BTreeRow;
import org.apache.cassandra.db.rows.BufferCell;
import org.apache.cassandra.db.rows.Cell;
import org.apache.cassandra.db.rows.CellPath;
import org.apache.cassandra.db.rows.Cells;
import org.apache.cassandra.db.rows.ColumnData;
import org.apache.cassandra.db.rows.ComplexColumnData;
import org.apache.cassandra.db.rows.Row;
import org.apache.cassandra.db.rows.Rows;
import org.apache.cassandra.dht.Murmur3Partitioner;
import org.apache.cassandra.schema.CQLTypeParser;
import org.apache.cassandra.schema.ColumnMetadata;
import org.apache.cassandra.schema.Types;
import org.apache.cassandra.transport.ProtocolVersion;
import org.apache.cassandra.utils.ByteBufferUtil;

public class Judge {
    private static final Map<String, AbstractType<?>> TYPES = new HashMap<>();
    private static final ColumnMetadata[] COLUMNS = {
        ColumnMetadata.regularColumn("ks", "t", "0", BytesType.instance),
        ColumnMetadata.regularColumn("ks", "t", "1", BytesType.instance),
        ColumnMetadata.regularColumn("ks", "t", "2", SetType.getInstance(Int32Type.instance, true)),
        ColumnMetadata.regularColumn("ks", "t", "3", SetType.getInstance(Int32Type.instance, true)),
    };
    private static Types udts;

    public static void main(String[] args) throws Exception {
        DatabaseDescriptor.clientInitialization(false);
        Types.RawBuilder builder = Types.rawBuilder("ks");
        builder.add("pair", Arrays.asList("a", "b"), Arrays.asList("int", "text"));
        udts = builder.build();
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new java.io.FileOutputStream(java.io.FileDescriptor.out), false, "UTF-8");
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String answer;
            try {
                answer = answer(line.split("\t", -1));
            } catch (Throwable e) {
                answer = "error\t" + (e.getMessage() == null ? e.toString() : e.getMessage());
            }
            out.print("= " + answer.replace("\n", " ") + "\n");
        }
        out.flush();
    }

    private static String answer(String[] q) throws Exception {
        if (q[0].equals("token")) {
            return Murmur3Partitioner.instance.getToken(bytes(q[1])).getTokenValue().toString();
        }
        if (q[0].equals("todate")) {
            return "ok\t" + hex(SimpleDateType.instance.fromTimeInMillis(ByteBufferUtil.toLong(bytes(q[1]))));
        }
        if (q[0].equals("reconcile")) {
            return text(Cells.reconcile(cell(COLUMNS[0], null, q[1]), cell(COLUMNS[0], null, q[2])));
        }
        if (q[0].equals("merge")) {
            return text(Rows.merge(row(q[1]), row(q[2])));
        }
        if (q[0].equals("marker")) {
            LivenessInfo a = marker(q[1]);
            LivenessInfo b = marker(q[2]);
            LivenessInfo winner = a.supersedes(b) ? a : b;
            return text(winner);
        }
        AbstractType<?> type = TYPES.computeIfAbsent(q[1], t -> CQLTypeParser.parse("ks", t, udts));
        switch (q[0]) {
            case "compare":
                return Integer.toString(Integer.signum(type.compare(bytes(q[2]), bytes(q[3]))));
            case "validate":
                type.validate(bytes(q[2]));
                return "ok";
            case "text":
                return "ok\t" + hex(ByteBufferUtil.bytes(type.getString(bytes(q[2]))));
            case "literal":
                return "ok\t" + hex(ByteBufferUtil.bytes(type.asCQL3Type().toCQLLiteral(bytes(q[2]), ProtocolVersion.V5)));
            case "json":
                return "ok\t" + hex(ByteBufferUtil.bytes(type.toJSONString(bytes(q[2]), ProtocolVersion.V5)));
            case "parse":
                return "ok\t" + hex((type instanceof CounterColumnType ? LongType.instance : type).fromString(text(q[2])));
            case "plus":
                return "ok\t" + hex(((TemporalType<?>) type).addDuration(bytes(q[2]), bytes(q[3])));
            case "minus":
                return "ok\t" + hex(((TemporalType<?>) type).substractDuration(bytes(q[2]), bytes(q[3])));
            case "fromjson":
                Object parsed = Json.decodeJson(text(q[2]));
                if (parsed == null) {
                    return "ok\t-";
                }
                Term term = type.fromJSONObject(parsed);
                return "ok\t" + hex(term.bindAndGet(QueryOptions.DEFAULT));
            default:
                throw new IllegalArgumentException("no such question: " + q[0]);
        }
    }

    private static int second(int time) {
        return time == Integer.MAX_VALUE ? 0 : time;
    }

    private static Cell<?> cell(ColumnMetadata column, CellPath path, String text) {
        String[] f = text.split(":", -1);
        long timestamp = Long.parseLong(f[1]);
        int second = Integer.parseInt(f[3]);
        switch (f[0]) {
            case "tombstone":
                return BufferCell.tombstone(column, timestamp, second, path);
            case "expiring":
                return new BufferCell(column, timestamp, Integer.parseInt(f[2]), second, bytes(f[4]), path);
            default:
                return BufferCell.live(column, timestamp, bytes(f[4]), path);
        }
    }

    private static DeletionTime deletion(String text) {
        String[] f = text.split(":");
        return new DeletionTime(Long.parseLong(f[0]), Integer.parseInt(f[1]));
    }

    private static Row row(String text) {
        Row.Builder builder = BTreeRow.unsortedBuilder();
        builder.newRow(Clustering.EMPTY);
        for (String part : text.split(" ")) {
            String[] f = part.split("/", -1);
            switch (f[0]) {
                case "marker":
                    builder.addPrimaryKeyLivenessInfo(marker(f[1]));
                    break;
                case "deletion":
                    builder.addRowDeletion(Row.Deletion.regular(deletion(f[1])));
                    break;
                case "cell":
                    builder.addCell(cell(COLUMNS[Integer.parseInt(f[1])], null, f[2]));
                    break;
                case "elements":
                    builder.addComplexDeletion(COLUMNS[Integer.parseInt(f[1])], deletion(f[2]));
                    break;
                case "element":
                    CellPath path = CellPath.create(ByteBufferUtil.bytes(Integer.parseInt(f[2])));
                    builder.addCell(cell(COLUMNS[Integer.parseInt(f[1])], path, f[3]));
                    break;
                default:
                    break;
            }
        }
        return builder.build();
    }

    private static String text(Row row) {
        StringBuilder out = new StringBuilder();
        if (row == null) {
            return "";
        }
        if (!row.primaryKeyLivenessInfo().isEmpty()) {
            out.append("marker/").append(text(row.primaryKeyLivenessInfo())).append(' ');
        }
        DeletionTime deletion = row.deletion().time();
        if (!deletion.isLive()) {
            out.append("deletion/").append(deletion.markedForDeleteAt()).append(':');
            out.append(deletion.localDeletionTime()).append(' ');
        }
        for (ColumnData data : row) {
            String column = data.column().name.toString();
            if (data instanceof Cell) {
                out.append("cell/").append(column).append('/').append(text((Cell<?>) data)).append(' ');
                continue;
            }
            DeletionTime elements = ((ComplexColumnData) data).complexDeletion();
            // One that the deletion of the row covers has no effect.
            if (!elements.isLive() && elements.markedForDeleteAt() > deletion.markedForDeleteAt()) {
                out.append("elements/").append(column).append('/').append(elements.markedForDeleteAt()).append(':');
                out.append(elements.localDeletionTime()).append(' ');
            }
            for (Cell<?> cell : (ComplexColumnData) data) {
                out.append("element/").append(column).append('/').append(ByteBufferUtil.toInt(cell.path().get(0)));
                out.append('/').append(text(cell)).append(' ');
            }
        }
        return out.toString().trim();
    }

    private static String text(Cell<?> cell) {
        String kind = cell.isTombstone() ? "tombstone" : cell.isExpiring() ? "expiring" : "live";
        return kind + ":" + cell.timestamp() + ":" + cell.ttl() + ":" + second(cell.localDeletionTime()) + ":"
                + hex(cell.buffer());
    }

    private static String text(LivenessInfo marker) {
        return marker.timestamp() + ":" + marker.ttl() + ":" + second(marker.localExpirationTime());
    }

    private static LivenessInfo marker(String text) {
        String[] f = text.split(":");
        int ttl = Integer.parseInt(f[1]);
        return LivenessInfo.withExpirationTime(
                Long.parseLong(f[0]), ttl, ttl == 0 ? Integer.MAX_VALUE : Integer.parseInt(f[2]));
    }

    private static String text(String hex) throws Exception {
        return new String(ByteBufferUtil.getArray(ByteBufferUtil.hexToBytes(hex)), StandardCharsets.UTF_8);
    }

    private static ByteBuffer bytes(String hex) {
        return hex.equals("-") ? null : ByteBufferUtil.hexToBytes(hex);
    }

    private static String hex(ByteBuffer value) {
        return value == null ? "-" : ByteBufferUtil.bytesToHex(value);
    }
}
