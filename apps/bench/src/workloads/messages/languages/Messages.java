// A chain of virtual threads. Prints the ns per pass, the number of passes, and the memory in KiB
// before the first pass and at its peak.
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.SynchronousQueue;

public class Messages {
    static void chain(int length) throws Exception {
        var last = new SynchronousQueue<Integer>();
        var left = last;
        for (int i = 0; i < length; i++) {
            var right = new SynchronousQueue<Integer>();
            var to = left;
            Thread.ofVirtual().start(() -> {
                try {
                    to.put(right.take() + 1);
                } catch (InterruptedException e) {
                    throw new RuntimeException(e);
                }
            });
            left = right;
        }
        left.put(0);
        if (last.take() != length) throw new RuntimeException("the chain is broken");
    }

    static long kib(String name) throws Exception {
        for (String line : Files.readAllLines(Path.of("/proc/self/status")))
            if (line.startsWith(name)) return Long.parseLong(line.replaceAll("[^0-9]", ""));
        return 0;
    }

    public static void main(String[] args) throws Exception {
        int length = Integer.parseInt(args[1]);
        long warm = Long.parseLong(args[3]) * 1000, sample = Long.parseLong(args[4]) * 1000;
        long before = kib("VmRSS:"), passes = 0, begin = System.nanoTime();
        do {
            chain(length);
            passes++;
        } while (System.nanoTime() - begin < warm);
        long counted = 0;
        begin = System.nanoTime();
        do {
            chain(length);
            counted++;
        } while (System.nanoTime() - begin < sample);
        double ns = (double) (System.nanoTime() - begin) / counted;
        System.out.println(ns + " " + (passes + counted) + " " + before + " " + kib("VmHWM:"));
    }
}
