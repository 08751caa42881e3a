// Sums up 400,000 numbers in each round, on the pool that Java sizes by the CPUs that it counts.
// The argument is a factor of the number of rounds.
import java.util.stream.IntStream;

public class Sums {
    public static void main(String[] args) {
        int rounds = 1000 * (args.length > 0 ? Integer.parseInt(args[0]) : 1);
        double sum = 0;
        for (int i = 0; i < rounds; i++) {
            int round = i;
            sum += IntStream.range(0, 400_000).parallel().mapToDouble(n -> n ^ round).sum();
        }
        System.out.println(Runtime.getRuntime().availableProcessors() + " " + sum);
    }
}
