// Lucene Monitor on the subscriptions of `headwater bench alerts`: run as a single source file by
// headwater/bench/lucene_monitor.py, which writes what is read here and compares what is found.
//
//   java -cp <jars> LuceneMonitorHarness.java <folder> <threads> <passes>
//
// <folder>/subscriptions   id TAB conjunction TAB …   a conjunction is of literals, separated by spaces:
//     +field:term|term   one of the terms      -field:term|term   none of them
//     =lat,lon,radius_m,price_low,price_high   the exact test, after the terms let it through
// <folder>/rows            lat,lon,price TAB field:term field:term …      one a line
// <folder>/weights         field:term TAB weight                          rarer is heavier
// <folder>/matches         row, id, row, id, …                            written, big-endian ints

import java.io.*;
import java.nio.charset.StandardCharsets;
import java.nio.file.*;
import java.util.*;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.lucene.analysis.core.KeywordAnalyzer;
import org.apache.lucene.document.*;
import org.apache.lucene.index.*;
import org.apache.lucene.monitor.*;
import org.apache.lucene.search.*;

public class LuceneMonitorHarness {
    static final double EARTH_M = 6_371_008.7714;
    static final int WARM_UP_ROWS = 200;

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

    static Document document(String line) {
        String[] parts = line.split("\t");
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

    public static void main(String[] args) throws Exception {
        Path folder = Path.of(args[0]);
        int threads = Integer.parseInt(args[1]), passes = Integer.parseInt(args[2]);
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
        try (Monitor monitor = new Monitor(new KeywordAnalyzer(), presearcher, configuration)) {
            long began = System.nanoTime();
            try (BufferedReader lines = Files.newBufferedReader(folder.resolve("subscriptions"))) {
                monitor.register(() -> lines.lines().map(LuceneMonitorHarness::subscription).iterator());
            }
            double buildS = (System.nanoTime() - began) / 1e9;
            List<String> rows = Files.readAllLines(folder.resolve("rows"), StandardCharsets.UTF_8);
            for (int at = 0; at < Math.min(WARM_UP_ROWS, rows.size()); at++) {
                monitor.match(document(rows.get(at)), QueryMatch.SIMPLE_MATCHER);
            }
            List<int[]> found = Collections.synchronizedList(new ArrayList<>());
            AtomicInteger next = new AtomicInteger();
            java.lang.management.OperatingSystemMXBean system =
                java.lang.management.ManagementFactory.getOperatingSystemMXBean();
            com.sun.management.OperatingSystemMXBean own = (com.sun.management.OperatingSystemMXBean) system;
            long cpu = own.getProcessCpuTime();
            began = System.nanoTime();
            Thread[] workers = new Thread[threads];
            for (int number = 0; number < threads; number++) {
                workers[number] = new Thread(() -> {
                    for (int row; (row = next.getAndIncrement()) < rows.size();) {
                        try {
                            MatchingQueries<QueryMatch> matches =
                                monitor.match(document(rows.get(row)), QueryMatch.SIMPLE_MATCHER);
                            if (!matches.getErrors().isEmpty()) throw new IllegalStateException(matches.getErrors().toString());
                            int[] told = new int[matches.getMatchCount() * 2];
                            int at = 0;
                            for (QueryMatch match : matches.getMatches()) {
                                told[at++] = row;
                                told[at++] = Integer.parseInt(match.getQueryId());
                            }
                            found.add(told);
                        } catch (IOException error) {
                            throw new UncheckedIOException(error);
                        }
                    }
                });
                workers[number].start();
            }
            for (Thread worker : workers) worker.join();
            double tookS = (System.nanoTime() - began) / 1e9;
            double cpuS = (own.getProcessCpuTime() - cpu) / 1e9;
            try (DataOutputStream out = new DataOutputStream(
                    new BufferedOutputStream(Files.newOutputStream(folder.resolve("matches"))))) {
                for (int[] told : found) for (int number : told) out.writeInt(number);
            }
            System.out.printf(Locale.ROOT, "{\"build_s\": %.3f, \"took_s\": %.3f, \"cpu_s\": %.3f}%n", buildS, tookS, cpuS);
        }
    }
}
