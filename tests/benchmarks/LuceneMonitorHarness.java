// Lucene Monitor on the subscriptions of `headwater bench alerts`: run as a single source file by
// headwater/bench/lucene_monitor.py, which writes what is read here and compares what is found.
//
//   java -cp <jars> LuceneMonitorHarness.java <folder> <threads> <passes> <batches> <seconds> <changes>
//
// <batches> are numbers of changes, separated by commas, whose rows are given to `match` at once; 0 is each row by
// itself. All threads try each batch for a tenth of <seconds>, in rounds of which the best counts, because Java still
// compiles. With the batch that took the least processor time a row they warm up for <seconds>, and are then measured
// for <seconds>, over the rows again and again, and over the first <changes> of them at least, whose matches are told.
//
// <folder>/subscriptions   id TAB conjunction TAB …   a conjunction is of literals, separated by spaces:
//     +field:term|term   one of the terms      -field:term|term   none of them
//     =lat,lon,radius_m,price_low,price_high   the exact test, after the terms let it through
// <folder>/rows            number TAB lat,lon,price TAB field:term field:term …      one a line
//     the number is twice its change's, one more for the row after it
// <folder>/weights         field:term TAB weight                          rarer is heavier
// <folder>/matches         row's number, id, row's number, id, …          written, big-endian ints

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.stream.*;
import org.apache.lucene.analysis.core.KeywordAnalyzer;
import org.apache.lucene.document.*;
import org.apache.lucene.index.*;
import org.apache.lucene.monitor.*;
import org.apache.lucene.search.*;

public class LuceneMonitorHarness {
    static final double EARTH_M = 6_371_008.7714;
    static final int ROUNDS = 3;

    /** Distance and price of the one document, from its doc values: cheaper than points. */
    static final class Exact extends Query {
        final double lat, lon, radius;
        final long low, high;

        Exact(String written) {
            String[] n = written.split(",");
            lat = Double.parseDouble(n[0]);
            lon = Double.parseDouble(n[1]);
            radius = Double.parseDouble(n[2]);
            low = Long.parseLong(n[3]);
            high = Long.parseLong(n[4]);
        }

        boolean holds(long price, double otherLat, double otherLon) {
            if (price < low || price > high) return false;
            if (radius < 0) return true;
            double halfLat = Math.sin(Math.toRadians(otherLat - lat) / 2);
            double halfLon = Math.sin(Math.toRadians(otherLon - lon) / 2);
            double chord = halfLat * halfLat
                + Math.cos(Math.toRadians(lat)) * Math.cos(Math.toRadians(otherLat)) * halfLon * halfLon;
            return 2 * EARTH_M * Math.asin(Math.min(1.0, Math.sqrt(chord))) <= radius;
        }

        static double value(LeafReader reader, String field, int doc) throws IOException {
            NumericDocValues values = reader.getNumericDocValues(field);
            return values != null && values.advanceExact(doc) ? Double.longBitsToDouble(values.longValue()) : Double.NaN;
        }

        @Override
        public Weight createWeight(IndexSearcher searcher, ScoreMode mode, float boost) {
            return new ConstantScoreWeight(this, boost) {
                @Override
                public Scorer scorer(LeafReaderContext context) throws IOException {
                    LeafReader reader = context.reader();
                    DocIdSetIterator all = DocIdSetIterator.all(reader.maxDoc());
                    TwoPhaseIterator checked = new TwoPhaseIterator(all) {
                        @Override
                        public boolean matches() throws IOException {
                            int doc = approximation.docID();
                            NumericDocValues prices = reader.getNumericDocValues("price_");
                            if (prices == null || !prices.advanceExact(doc)) return false;
                            return holds(prices.longValue(), value(reader, "lat_", doc), value(reader, "lon_", doc));
                        }

                        @Override
                        public float matchCost() {
                            return 50;
                        }
                    };
                    return new ConstantScoreScorer(this, score(), mode, checked);
                }

                @Override
                public boolean isCacheable(LeafReaderContext context) {
                    return false;
                }
            };
        }

        @Override
        public void visit(QueryVisitor visitor) {
            visitor.visitLeaf(this);
        }

        @Override
        public String toString(String field) {
            return "exact";
        }

        @Override
        public boolean equals(Object other) {
            return other instanceof Exact e && e.lat == lat && e.lon == lon && e.radius == radius && e.low == low
                && e.high == high;
        }

        @Override
        public int hashCode() {
            return Objects.hash(lat, lon, radius, low, high);
        }
    }

    /** Shared by all subscriptions that name them: at a million the heap would be full of equal ones. */
    static final Map<String, Query> TERMS = new HashMap<>();

    static Query term(String field, String text) {
        return TERMS.computeIfAbsent(field + ":" + text, key -> new TermQuery(new Term(field, text)));
    }

    static Query anyOf(String written) {
        int colon = written.indexOf(':');
        String field = written.substring(0, colon);
        String[] terms = written.substring(colon + 1).split("\\|");
        if (terms.length == 1) return term(field, terms[0]);
        BooleanQuery.Builder any = new BooleanQuery.Builder();
        for (String text : terms) any.add(term(field, text), BooleanClause.Occur.SHOULD);
        return any.build();
    }

    static Query conjunction(String written) {
        BooleanQuery.Builder all = new BooleanQuery.Builder();
        for (String literal : written.split(" ")) {
            String rest = literal.substring(1);
            switch (literal.charAt(0)) {
                case '+' -> all.add(anyOf(rest), BooleanClause.Occur.FILTER);
                case '-' -> all.add(anyOf(rest), BooleanClause.Occur.MUST_NOT);
                default -> all.add(new Exact(rest), BooleanClause.Occur.FILTER);
            }
        }
        return all.build();
    }

    static MonitorQuery subscription(String line) {
        String[] parts = line.split("\t");
        if (parts.length == 2) return new MonitorQuery(parts[0], conjunction(parts[1]));
        BooleanQuery.Builder any = new BooleanQuery.Builder();
        for (int at = 1; at < parts.length; at++) any.add(conjunction(parts[at]), BooleanClause.Occur.SHOULD);
        return new MonitorQuery(parts[0], any.build());
    }

    record Row(int number, String written) {}

    static Row row(String line) {
        int tab = line.indexOf('\t');
        return new Row(Integer.parseInt(line.substring(0, tab)), line.substring(tab + 1));
    }

    static Document document(Row row) {
        String[] parts = row.written.split("\t");
        String[] numbers = parts[0].split(",");
        Document made = new Document();
        made.add(new NumericDocValuesField("lat_", Double.doubleToLongBits(Double.parseDouble(numbers[0]))));
        made.add(new NumericDocValuesField("lon_", Double.doubleToLongBits(Double.parseDouble(numbers[1]))));
        made.add(new NumericDocValuesField("price_", Long.parseLong(numbers[2])));
        for (String term : parts[1].split(" ")) {
            int colon = term.indexOf(':');
            made.add(new StringField(term.substring(0, colon), term.substring(colon + 1), Field.Store.NO));
        }
        return made;
    }

    static List<Row[]> batches(List<Row> rows, int changes) {
        if (changes == 0) return rows.stream().map(row -> new Row[] {row}).toList();
        Map<Integer, List<Row>> by = new TreeMap<>();
        for (Row row : rows) by.computeIfAbsent(row.number / 2 / changes, key -> new ArrayList<>()).add(row);
        return by.values().stream().map(some -> some.toArray(Row[]::new)).toList();
    }

    static MultiMatchingQueries<QueryMatch> matched(Monitor monitor, Row[] batch) throws IOException {
        Document[] documents = new Document[batch.length];
        for (int at = 0; at < batch.length; at++) documents[at] = document(batch[at]);
        MultiMatchingQueries<QueryMatch> matches = monitor.match(documents, QueryMatch.SIMPLE_MATCHER);
        if (!matches.getErrors().isEmpty()) throw new IllegalStateException(matches.getErrors().toString());
        return matches;
    }

    static int[] told(MultiMatchingQueries<QueryMatch> matches, Row[] batch, int changes) {
        IntStream.Builder told = IntStream.builder();
        for (int at = 0; at < batch.length; at++) {
            if (batch[at].number / 2 >= changes) break;
            for (QueryMatch match : matches.getMatches(at)) {
                told.add(batch[at].number).add(Integer.parseInt(match.getQueryId()));
            }
        }
        return told.build().toArray();
    }

    record Ran(long rows, double rowsPerS, double cpuS) {
        double cpuMsPerRow() {
            return cpuS / rows * 1000;
        }
    }

    /**
     * All threads, over the batches again and again: for so long, and at least to the first changes, so many, of which
     * `found` is told. A thread's rate is by its own time: the last batch of another one is no part of it.
     */
    static Ran run(Monitor monitor, List<Row[]> batches, int threads, double seconds, int changes, List<int[]> found)
            throws Exception {
        long least = batches.stream().filter(batch -> batch[0].number / 2 < changes).count();
        AtomicInteger next = new AtomicInteger();
        AtomicLong all = new AtomicLong();
        var system = (com.sun.management.OperatingSystemMXBean)
            java.lang.management.ManagementFactory.getOperatingSystemMXBean();
        long cpu = system.getProcessCpuTime(), began = System.nanoTime();
        Callable<Double> work = () -> {
            long rows = 0;
            for (int turn; (turn = next.getAndIncrement()) < least || System.nanoTime() - began < seconds * 1e9;) {
                Row[] batch = batches.get(turn % batches.size());
                MultiMatchingQueries<QueryMatch> matches = matched(monitor, batch);
                if (turn < least) found.add(told(matches, batch, changes));
                rows += batch.length;
            }
            all.addAndGet(rows);
            return rows / ((System.nanoTime() - began) / 1e9);
        };
        double rowsPerS = 0;
        ExecutorService pool = Executors.newFixedThreadPool(threads);
        try {
            for (Future<Double> rate : pool.invokeAll(Collections.nCopies(threads, work))) rowsPerS += rate.get();
        } finally {
            pool.shutdown();
        }
        return new Ran(all.get(), rowsPerS, (system.getProcessCpuTime() - cpu) / 1e9);
    }

    static Monitor monitor(Path folder, int passes) throws IOException {
        Map<String, Double> weights = new HashMap<>();
        for (String line : Files.readAllLines(folder.resolve("weights"))) {
            String[] parts = line.split("\t");
            weights.put(parts[0], Double.parseDouble(parts[1]));
        }
        double rarest = weights.values().stream().mapToDouble(d -> d).max().orElse(1);
        TermWeightor weightor = term -> weights.getOrDefault(term.field() + ":" + term.text(), rarest);
        Presearcher presearcher = new MultipassTermFilteredPresearcher(
            passes, 0.0f, weightor, Collections.emptyList(), Collections.emptySet());
        MonitorConfiguration configuration = new MonitorConfiguration()
            .setQueryUpdateBufferSize(5_000).setPurgeFrequency(1, TimeUnit.DAYS);
        return new Monitor(new KeywordAnalyzer(), presearcher, configuration);
    }

    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        int threads = Integer.parseInt(args[1]);
        int[] sizes = Arrays.stream(args[3].split(",")).mapToInt(Integer::parseInt).toArray();
        double seconds = Double.parseDouble(args[4]);
        int changes = Integer.parseInt(args[5]);
        try (Monitor monitor = monitor(folder, Integer.parseInt(args[2]))) {
            long began = System.nanoTime();
            try (BufferedReader lines = Files.newBufferedReader(folder.resolve("subscriptions"))) {
                monitor.register(() -> lines.lines().map(LuceneMonitorHarness::subscription).iterator());
            }
            double buildS = (System.nanoTime() - began) / 1e9;
            List<Row> rows;
            try (Stream<String> lines = Files.lines(folder.resolve("rows"))) {
                rows = lines.map(LuceneMonitorHarness::row).toList();
            }
            Map<Integer, Double> tried = new TreeMap<>();
            for (int round = 0; round < ROUNDS; round++) {
                for (int size : sizes) {
                    Ran ran = run(monitor, batches(rows, size), threads, seconds / 10, 0, null);
                    tried.merge(size, ran.cpuMsPerRow(), Math::min);
                }
            }
            int best = Collections.min(tried.entrySet(), Map.Entry.comparingByValue()).getKey();
            List<int[]> found = Collections.synchronizedList(new ArrayList<>());
            run(monitor, batches(rows, best), threads, seconds, 0, null);
            Ran ran = run(monitor, batches(rows, best), threads, seconds, changes, found);
            try (DataOutputStream out = new DataOutputStream(
                    new BufferedOutputStream(Files.newOutputStream(folder.resolve("matches"))))) {
                for (int[] told : found) for (int number : told) out.writeInt(number);
            }
            String trials = tried.entrySet().stream()
                .map(each -> String.format(Locale.ROOT, "\"%d\": %.4f", each.getKey(), each.getValue()))
                .collect(Collectors.joining(", ", "{", "}"));
            System.out.printf(Locale.ROOT,
                "{\"build_s\": %.3f, \"rows_per_s\": %.3f, \"cpu_ms_per_row\": %.4f, \"batch\": %d, \"tried\": %s}%n",
                buildS, ran.rowsPerS, ran.cpuMsPerRow(), best, trials);
        }
    }
}
